// matmul_batched: C[z] = A[z]·B[z], a batched GEMM of 12 matrices
//
// computes  C[z, m, n] = sum(A[z, m, k] * B[z, k, n], k)
// params    Z = 12, M = 33, K = 20, N = 40
// A         input, float32 [12, 33, 20]
// B         input, float32 [12, 20, 40]
// C         output, float32 [12, 33, 40]
// launch    grid (3, 3, 12), block (16, 16, 1), 2048 bytes of shared memory; family tiled
//
// Made by cugen 0.1.0 from matmul_batched.yaml (hash 00cb35dd99443467) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
cudaError_t matmul_batched_launch(const float* A, const float* B, float* C, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "matmul_batched.hpp"
#endif
#endif
