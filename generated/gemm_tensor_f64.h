// gemm_tensor_f64: C = A·B in double precision on tensor cores; fragments are double-buffered in registers
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 128, K = 64, N = 96
// A         input, float64 [128, 64], aligned to 16 bytes
// B         input, float64 [64, 96], aligned to 16 bytes
// C         output, float64 [128, 96], aligned to 16 bytes
// launch    grid (3, 2, 1), block (128, 1, 1), 38400 bytes of shared memory; family gemm
//
// Made by cugen 0.1.0 from gemm_tensor_f64.yaml (hash 007ef125d74857c9) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: A, B, C.
cudaError_t gemm_tensor_f64_launch(const double* A, const double* B, double* C, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "gemm_tensor_f64.hpp"
#endif
#endif
