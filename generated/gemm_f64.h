// gemm_f64: C = A·Bᵀ in double precision on CUDA cores; 16-byte vectors hold two elements
//
// computes  C[m, n] = sum(A[m, k] * B[n, k], k)
// params    M = 70, K = 40, N = 64
// A         input, float64 [70, 40]
// B         input, float64 [64, 40]
// C         output, float64 [70, 64], aligned to 16 bytes
// launch    grid (2, 3, 1), block (64, 1, 1), 13824 bytes of shared memory; family gemm
//
// Made by cugen 0.1.0 from gemm_f64.yaml (hash f2ecbbdbc70dd8a2) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: C.
cudaError_t gemm_f64_launch(const double* A, const double* B, double* C, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "gemm_f64.hpp"
#endif
#endif
