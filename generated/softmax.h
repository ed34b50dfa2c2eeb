// softmax: The softmax of each row, safe for scores whose exp overflows
//
// computes  y[i, j] = softmax(x[i, j], j)
// params    M = 100, N = 257
// x         input, float32 [100, 257], aligned to 16 bytes
// y         output, float32 [100, 257], aligned to 16 bytes
// launch    grid (25, 1, 1), block (32, 4, 1); family rowwise
//
// Made by cugen 0.1.0 from softmax.yaml (hash 14abdfa67b01bcfc) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: x, y.
cudaError_t softmax_launch(const float* x, float* y, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "softmax.hpp"
#endif
#endif
