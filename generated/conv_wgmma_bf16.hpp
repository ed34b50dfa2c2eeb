// conv_wgmma_bf16_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from conv_wgmma_bf16.yaml (hash 0b837179aeb31954) for sm_90a. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "conv_wgmma_bf16.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> conv_wgmma_bf16_launch(cugen::Span<const __nv_bfloat16, 4> x,
    cugen::Span<const __nv_bfloat16, 4> f, cugen::Span<const float, 1> bias, cugen::Span<__nv_bfloat16, 4> y,
    cudaStream_t stream)
{
    cugen::Checks check;
    check.array("x", x, {3, 13, 18, 64}, {14976, 1152, 64, 1}, 16);
    check.array("f", f, {96, 3, 3, 64}, {576, 192, 64, 1}, 16);
    check.array("bias", bias, {96}, {1}, 8);
    check.array("y", y, {3, 7, 9, 96}, {6048, 864, 96, 1}, 16);
    check.disjoint("x", x, "y", y);
    check.disjoint("f", f, "y", y);
    check.disjoint("bias", bias, "y", y);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(conv_wgmma_bf16_launch(x.data, f.data, bias.data, y.data, stream), cudaGetErrorString);
}
