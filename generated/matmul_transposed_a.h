// matmul_transposed_a: C = Aᵀ·B; A is stored M-major, as [K, M]
//
// computes  C[m, n] = sum(A[k, m] * B[k, n], k)
// params    M = 100, K = 50, N = 70
// A         input, float32 [50, 100], shared
// B         input, float32 [50, 70], shared
// C         output, float32 [100, 70]
// launch    grid (5, 7, 1), block (16, 16, 1), 2048 bytes of shared memory; family tiled
//
// Made by cugen 0.1.0 from matmul_transposed.yaml (hash f5ae3058a65143ff) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
cudaError_t matmul_transposed_a_launch(const float* A, const float* B, float* C, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "matmul_transposed_a.hpp"
#endif
#endif
