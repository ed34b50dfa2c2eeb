// conv_channels: A convolution over many channels, with a bias and an activation; windows move along the channels
//
// computes  y[n, k, i, j] = relu(sum(w[k, c, r, s] * x[n, c, i + r - 1, j + s - 1], c, r, s) + bias[k])
// params    N = 2, C = 20, K = 6, H = 26, W = 32
// x         input, float32 [2, 20, 26, 32], outside: zero, aligned to 16 bytes
// w         input, float32 [6, 20, 3, 3]
// bias      input, float32 [6]
// y         output, float32 [2, 6, 26, 32], aligned to 16 bytes
// launch    grid (1, 2, 4), block (8, 16, 1); family stencil
//
// Made by cugen 0.1.0 from conv_channels.yaml (hash f8d6ce4bf184dd11) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: x, y.
cudaError_t conv_channels_launch(const float* x, const float* w, const float* bias, float* y, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "conv_channels.hpp"
#endif
#endif
