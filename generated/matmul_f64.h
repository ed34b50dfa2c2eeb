// matmul_f64: C = A·B in double precision
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 64, K = 100, N = 72
// A         input, float64 [64, 100], shared
// B         input, float64 [100, 72], shared
// C         output, float64 [64, 72]
// launch    grid (5, 4, 1), block (16, 16, 1), 4096 bytes of shared memory; family tiled
//
// Made by cugen 0.1.0 from matmul_f64.yaml (hash 31c1480e3643ba22) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
cudaError_t matmul_f64_launch(const double* A, const double* B, double* C, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "matmul_f64.hpp"
#endif
#endif
