// conv_channels_last: A convolution with channels last, on tensor cores; an implicit GEMM, whose
// copies move vectors of channels
//
// computes  y[n, i, j, k] = relu(sum(x[n, i + r - 1, j + s - 1, c] * w[k, r, s, c], r, s, c))
// params    N = 2, H = 15, W = 14, C = 64, K = 64
// x         input, bfloat16 [2, 15, 14, 64], outside: zero, aligned to 16 bytes
// w         input, bfloat16 [64, 3, 3, 64], aligned to 16 bytes
// y         output, bfloat16 [2, 15, 14, 64], aligned to 8 bytes
// launch    grid (8, 14, 1), block (128, 1, 1), clusters of 4, 32768 bytes of dynamic shared memory; family gemm
//
// Made by cugen 0.1.0 from conv_channels_last.yaml (hash cffc4ad948dff7a2) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>
#include <cuda_bf16.h>

#ifdef __cplusplus
extern "C" {
#else
typedef __nv_bfloat16_raw __nv_bfloat16;
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: x, w.
// Must be aligned to 8 bytes: y.
cudaError_t conv_channels_last_launch(const __nv_bfloat16* x, const __nv_bfloat16* w, __nv_bfloat16* y,
    cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "conv_channels_last.hpp"
#endif
#endif
