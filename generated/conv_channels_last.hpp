// conv_channels_last_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from conv_channels_last.yaml (hash cffc4ad948dff7a2) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "conv_channels_last.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> conv_channels_last_launch(cugen::Span<const __nv_bfloat16, 4> x,
    cugen::Span<const __nv_bfloat16, 4> w, cugen::Span<__nv_bfloat16, 4> y, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("x", x, {2, 15, 14, 64}, {13440, 896, 64, 1}, 16);
    check.array("w", w, {64, 3, 3, 64}, {576, 192, 64, 1}, 16);
    check.array("y", y, {2, 15, 14, 64}, {13440, 896, 64, 1}, 8);
    check.disjoint("x", x, "y", y);
    check.disjoint("w", w, "y", y);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(conv_channels_last_launch(x.data, w.data, y.data, stream), cudaGetErrorString);
}
