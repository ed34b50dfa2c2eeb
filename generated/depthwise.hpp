// depthwise_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from depthwise.yaml (hash 7fd631453481fd23) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "depthwise.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> depthwise_launch(cugen::Span<const __half, 4> x, cugen::Span<const __half, 3> w,
    cugen::Span<__half, 4> y, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("x", x, {2, 5, 27, 40}, {5400, 1080, 40, 1}, 16);
    check.array("w", w, {5, 3, 3}, {9, 3, 1}, 2);
    check.array("y", y, {2, 5, 27, 40}, {5400, 1080, 40, 1}, 16);
    check.disjoint("x", x, "y", y);
    check.disjoint("w", w, "y", y);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(depthwise_launch(x.data, w.data, y.data, stream), cudaGetErrorString);
}
