// max_pool: The largest value in windows of 3 × 3 that overlap by one, as between the layers of a neural network
//
// computes  y[c, i, j] = max(x[c, 2 * i + r - 1, 2 * j + s - 1], r, s)
// params    C = 3, H = 61, W = 88
// x         input, float32 [3, 61, 88], outside: -inf, aligned to 16 bytes
// y         output, float32 [3, 31, 44], aligned to 8 bytes
// launch    grid (1, 8, 3), block (32, 4, 1); family stencil
//
// Made by cugen 0.1.0 from max_pool.yaml (hash 0fc060bc6f9aa5f1) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: x.
// Must be aligned to 8 bytes: y.
cudaError_t max_pool_launch(const float* x, float* y, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "max_pool.hpp"
#endif
#endif
