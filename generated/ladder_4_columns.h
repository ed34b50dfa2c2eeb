// ladder_4_columns: step 4: thread tile 8 × 1; each element of B that a thread loads is used 8 times
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 256, N = 256, K = 256
// A         input, float32 [256, 256], shared
// B         input, float32 [256, 256], shared
// C         output, float32 [256, 256]
// launch    grid (4, 4, 1), block (64, 8, 1), 4096 bytes of shared memory; family tiled
//
// Made by cugen 0.1.0 from product_ladder.yaml (hash 4b13c6abc0603076) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
cudaError_t ladder_4_columns_launch(const float* A, const float* B, float* C, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "ladder_4_columns.hpp"
#endif
#endif
