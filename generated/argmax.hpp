// argmax_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from argmax.yaml (hash fc56195d3d6c3d61) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "argmax.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> argmax_launch(cugen::Span<const float, 2> x, cugen::Span<long long, 1> best,
    cudaStream_t stream)
{
    cugen::Checks check;
    check.array("x", x, {200, 333}, {333, 1}, 16);
    check.array("best", best, {200}, {1}, 8);
    check.disjoint("x", x, "best", best);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(argmax_launch(x.data, best.data, stream), cudaGetErrorString);
}
