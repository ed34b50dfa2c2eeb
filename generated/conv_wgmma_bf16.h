// conv_wgmma_bf16: A strided convolution in bfloat16, channels last, by wgmma; TMA copies its windows in im2col mode
//
// computes  y[n, p, q, k] = relu(sum(x[n, 2*p + r - 1, 2*q + s - 1, c] * f[k, r, s, c], r, s, c) + bias[k])
// params    N = 3, H = 13, W = 18, P = 7, Q = 9, C = 64, K = 96
// x         input, bfloat16 [3, 13, 18, 64], outside: zero, aligned to 16 bytes
// f         input, bfloat16 [96, 3, 3, 64], aligned to 16 bytes
// bias      input, float32 [96], aligned to 8 bytes
// y         output, bfloat16 [3, 7, 9, 96], aligned to 16 bytes
// launch    grid (9, 1, 1), block (160, 1, 1), 114760 bytes of dynamic shared memory; family wgmma
//
// Made by cugen 0.1.0 from conv_wgmma_bf16.yaml (hash 0b837179aeb31954) for sm_90a. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>
#include <cuda_bf16.h>

#ifdef __cplusplus
extern "C" {
#else
typedef __nv_bfloat16_raw __nv_bfloat16;
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: x, f, y.
// Must be aligned to 8 bytes: bias.
cudaError_t conv_wgmma_bf16_launch(const __nv_bfloat16* x, const __nv_bfloat16* f, const float* bias, __nv_bfloat16* y,
    cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "conv_wgmma_bf16.hpp"
#endif
#endif
