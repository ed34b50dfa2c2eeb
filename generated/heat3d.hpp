// heat3d_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from heat3d.yaml (hash a73dabdf51a984a6) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "heat3d.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> heat3d_launch(cugen::Span<const float, 3> u, cugen::Span<float, 3> next,
    cudaStream_t stream)
{
    cugen::Checks check;
    check.array("u", u, {40, 36, 50}, {1800, 50, 1}, 8);
    check.array("next", next, {40, 36, 50}, {1800, 50, 1}, 8);
    check.disjoint("u", u, "next", next);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(heat3d_launch(u.data, next.data, stream), cudaGetErrorString);
}
