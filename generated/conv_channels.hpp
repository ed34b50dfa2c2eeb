// conv_channels_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from conv_channels.yaml (hash f8d6ce4bf184dd11) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "conv_channels.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> conv_channels_launch(cugen::Span<const float, 4> x, cugen::Span<const float, 4> w,
    cugen::Span<const float, 1> bias, cugen::Span<float, 4> y, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("x", x, {2, 20, 26, 32}, {16640, 832, 32, 1}, 16);
    check.array("w", w, {6, 20, 3, 3}, {180, 9, 3, 1}, 4);
    check.array("bias", bias, {6}, {1}, 4);
    check.array("y", y, {2, 6, 26, 32}, {4992, 832, 32, 1}, 16);
    check.disjoint("x", x, "y", y);
    check.disjoint("w", w, "y", y);
    check.disjoint("bias", bias, "y", y);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(conv_channels_launch(x.data, w.data, bias.data, y.data, stream), cudaGetErrorString);
}
