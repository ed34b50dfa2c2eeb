// conv_channels_first: A strided convolution with channels first; an implicit GEMM, whose copies locate its windows
//
// computes  y[n, k, i, j] = relu(sum(w[k, c, r, s] * x[n, c, 2 * i + r - 1, 2 * j + s - 1], c, r, s) + bias[k])
// params    N = 4, C = 24, K = 64, H = 29, W = 31
// x         input, float32 [4, 24, 29, 31], outside: zero
// w         input, float32 [64, 24, 3, 3]
// bias      input, float32 [64]
// y         output, float32 [4, 64, 15, 16], aligned to 16 bytes
// launch    grid (8, 2, 4), block (256, 1, 1), 26112 bytes of dynamic shared memory; family gemm
//
// Made by cugen 0.1.0 from conv_channels_first.yaml (hash a37a8ec3d646d38a) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: y.
cudaError_t conv_channels_first_launch(const float* x, const float* w, const float* bias, float* y,
    cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "conv_channels_first.hpp"
#endif
#endif
