// heat_torus_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from heat_torus.yaml (hash 30751e8f0684a6c2) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "heat_torus.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> heat_torus_launch(cugen::Span<const float, 2> u, cugen::Span<float, 2> next,
    cudaStream_t stream)
{
    cugen::Checks check;
    check.array("u", u, {270, 480}, {480, 1}, 512);
    check.array("next", next, {270, 480}, {480, 1}, 4);
    check.disjoint("u", u, "next", next);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(heat_torus_launch(u.data, next.data, stream), cudaGetErrorString);
}
