// conv_winograd_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from conv_winograd.yaml (hash 94c716f2edf4b4ae) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "conv_winograd.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> conv_winograd_launch(cugen::Span<const float, 4> x, cugen::Span<const float, 4> w,
    cugen::Span<const float, 1> bias, cugen::Span<float, 4> y, void* workspace, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("x", x, {3, 128, 18, 20}, {46080, 360, 20, 1}, 16);
    check.array("w", w, {192, 128, 3, 3}, {1152, 9, 3, 1}, 4);
    check.array("bias", bias, {192}, {1}, 4);
    check.array("y", y, {3, 192, 18, 20}, {69120, 360, 20, 1}, 16);
    check.disjoint("x", x, "y", y);
    check.disjoint("w", w, "y", y);
    check.disjoint("bias", bias, "y", y);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(conv_winograd_launch(x.data, w.data, bias.data, y.data, workspace, stream),
        cudaGetErrorString);
}
