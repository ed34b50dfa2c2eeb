// ladder_8_wide: step 8: thread tile 16 × 8, block tile 128 × 256; 24 elements from
// shared memory feed 128 multiply-adds
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 256, N = 256, K = 256
// A         input, float32 [256, 256], shared
// B         input, float32 [256, 256], shared, aligned to 16 bytes
// C         output, float32 [256, 256], aligned to 16 bytes
// launch    grid (1, 2, 1), block (256, 1, 1), 24832 bytes of shared memory; family gemm
//
// Made by cugen 0.1.0 from product_ladder.yaml (hash 353b70253055115a) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: B, C.
cudaError_t ladder_8_wide_launch(const float* A, const float* B, float* C, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "ladder_8_wide.hpp"
#endif
#endif
