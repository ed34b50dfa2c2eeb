// ladder_1_naive: step 1: one thread per output, which loads its row of A and its column of B from global memory
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 256, N = 256, K = 256
// A         input, float32 [256, 256]
// B         input, float32 [256, 256]
// C         output, float32 [256, 256]
// launch    grid (256, 1, 1), block (1, 256, 1); family direct
//
// Made by cugen 0.1.0 from product_ladder.yaml (hash 90ec286a001f4865) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
cudaError_t ladder_1_naive_launch(const float* A, const float* B, float* C, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "ladder_1_naive.hpp"
#endif
#endif
