// gemm_batched: Batched GEMM with an activation and a residual in its epilogue
//
// computes  C[z, m, n] = relu(sum(A[z, m, k] * B[z, k, n], k)) + residual[z, m, n]
// params    Z = 2, M = 30, K = 20, N = 40
// A         input, float32 [2, 30, 20]
// B         input, float32 [2, 20, 40], aligned to 16 bytes
// residual  input, float32 [2, 30, 40], aligned to 16 bytes
// C         output, float32 [2, 30, 40], aligned to 16 bytes
// launch    grid (2, 2, 2), block (32, 1, 1), 3328 bytes of shared memory; family gemm
//
// Made by cugen 0.1.0 from gemm_batched.yaml (hash e87cda77cc0c4b4c) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: B, residual, C.
cudaError_t gemm_batched_launch(const float* A, const float* B, const float* residual, float* C, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "gemm_batched.hpp"
#endif
#endif
