// softmax_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from softmax.yaml (hash 14abdfa67b01bcfc) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "softmax.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> softmax_launch(cugen::Span<const float, 2> x, cugen::Span<float, 2> y,
    cudaStream_t stream)
{
    cugen::Checks check;
    check.array("x", x, {100, 257}, {257, 1}, 16);
    check.array("y", y, {100, 257}, {257, 1}, 16);
    check.disjoint("x", x, "y", y);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(softmax_launch(x.data, y.data, stream), cudaGetErrorString);
}
