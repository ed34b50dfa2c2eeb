// conv_channels_first_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from conv_channels_first.yaml (hash a37a8ec3d646d38a) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "conv_channels_first.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> conv_channels_first_launch(cugen::Span<const float, 4> x,
    cugen::Span<const float, 4> w, cugen::Span<const float, 1> bias, cugen::Span<float, 4> y, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("x", x, {4, 24, 29, 31}, {21576, 899, 31, 1}, 4);
    check.array("w", w, {64, 24, 3, 3}, {216, 9, 3, 1}, 4);
    check.array("bias", bias, {64}, {1}, 4);
    check.array("y", y, {4, 64, 15, 16}, {15360, 240, 16, 1}, 16);
    check.disjoint("x", x, "y", y);
    check.disjoint("w", w, "y", y);
    check.disjoint("bias", bias, "y", y);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(conv_channels_first_launch(x.data, w.data, bias.data, y.data, stream), cudaGetErrorString);
}
