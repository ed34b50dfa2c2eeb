// n_body_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from n_body.yaml (hash de69da59cfb35586) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "n_body.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> n_body_launch(cugen::Span<const float, 2> p, cugen::Span<float, 2> a,
    cudaStream_t stream)
{
    cugen::Checks check;
    check.array("p", p, {1031, 4}, {4, 1}, 16);
    check.array("a", a, {1031, 2}, {2, 1}, 4);
    check.disjoint("p", p, "a", a);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(n_body_launch(p.data, a.data, stream), cudaGetErrorString);
}
