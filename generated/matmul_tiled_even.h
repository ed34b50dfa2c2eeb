// matmul_tiled_even: C = A·B on sizes that the tiles divide, so that no load or store is guarded
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 128, K = 64, N = 96
// A         input, float32 [128, 64], shared
// B         input, float32 [64, 96], shared
// C         output, float32 [128, 96]
// launch    grid (6, 8, 1), block (16, 16, 1), 2048 bytes of shared memory; family tiled
//
// Made by cugen 0.1.0 from matmul_tiled_even.yaml (hash 1886e6e6cc4653c6) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
cudaError_t matmul_tiled_even_launch(const float* A, const float* B, float* C, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "matmul_tiled_even.hpp"
#endif
#endif
