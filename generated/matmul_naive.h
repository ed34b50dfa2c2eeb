// matmul_naive: C = A·B; a thread computes one element and reads a row of A and a column of B from global memory
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 128, K = 96, N = 160
// A         input, float32 [128, 96]
// B         input, float32 [96, 160]
// C         output, float32 [128, 160]
// launch    grid (5, 16, 1), block (32, 8, 1); family direct
//
// Made by cugen 0.1.0 from matmul_naive.yaml (hash fca00ad20e41979a) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
cudaError_t matmul_naive_launch(const float* A, const float* B, float* C, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "matmul_naive.hpp"
#endif
#endif
