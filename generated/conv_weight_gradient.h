// conv_weight_gradient: The gradient of a convolution by its weights, channels last; an
// implicit GEMM over images and pixels
//
// computes  dw[k, r, s, c] = sum(dy[n, i, j, k] * x[n, i + r - 1, j + s - 1, c], n, i, j)
// params    N = 4, H = 12, W = 10, C = 24, K = 32
// x         input, float32 [4, 12, 10, 24], outside: zero, aligned to 16 bytes
// dy        input, float32 [4, 12, 10, 32], aligned to 16 bytes
// dw        output, float32 [32, 3, 3, 24], aligned to 16 bytes
// launch    grid (28, 1, 1), block (256, 1, 1), clusters of 4, 24576 bytes of dynamic shared memory; family gemm
//
// Made by cugen 0.1.0 from conv_weight_gradient.yaml (hash 42f4b7ab438ffe60) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: x, dy, dw.
cudaError_t conv_weight_gradient_launch(const float* x, const float* dy, float* dw, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "conv_weight_gradient.hpp"
#endif
#endif
