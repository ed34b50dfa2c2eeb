// ladder_5_squares: step 5: thread tile 8 × 8; 16 elements from shared memory feed 64 multiply-adds
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 256, N = 256, K = 256
// A         input, float32 [256, 256], shared
// B         input, float32 [256, 256], shared
// C         output, float32 [256, 256]
// launch    grid (2, 2, 1), block (16, 16, 1), 8192 bytes of shared memory; family tiled
//
// Made by cugen 0.1.0 from product_ladder.yaml (hash aba513c92c79a5d1) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
cudaError_t ladder_5_squares_launch(const float* A, const float* B, float* C, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "ladder_5_squares.hpp"
#endif
#endif
