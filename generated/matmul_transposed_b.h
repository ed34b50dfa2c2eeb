// matmul_transposed_b: C = A·Bᵀ; B is stored K-major, as [N, K]
//
// computes  C[m, n] = sum(A[m, k] * B[n, k], k)
// params    M = 100, K = 50, N = 70
// A         input, float32 [100, 50], shared
// B         input, float32 [70, 50], shared
// C         output, float32 [100, 70]
// launch    grid (5, 7, 1), block (16, 16, 1), 2112 bytes of shared memory; family tiled
//
// Made by cugen 0.1.0 from matmul_transposed.yaml (hash e43872635579e130) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
cudaError_t matmul_transposed_b_launch(const float* A, const float* B, float* C, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "matmul_transposed_b.hpp"
#endif
#endif
