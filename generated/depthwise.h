// depthwise: A filter of 3 × 3 taps of its own for each channel of a batch of half-precision images
//
// computes  y[n, c, i, j] = sum(x[n, c, i + r - 1, j + s - 1] * w[c, r, s], r, s)
// params    N = 2, C = 5, H = 27, W = 40
// x         input, float16 [2, 5, 27, 40], outside: zero, aligned to 16 bytes
// w         input, float16 [5, 3, 3]
// y         output, float16 [2, 5, 27, 40], aligned to 16 bytes
// launch    grid (1, 2, 10), block (8, 16, 1); family stencil
//
// Made by cugen 0.1.0 from depthwise.yaml (hash 7fd631453481fd23) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>
#include <cuda_fp16.h>

#ifdef __cplusplus
extern "C" {
#else
typedef __half_raw __half;
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: x, y.
cudaError_t depthwise_launch(const __half* x, const __half* w, __half* y, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "depthwise.hpp"
#endif
#endif
