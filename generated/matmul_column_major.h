// matmul_column_major: C = A·B on matrices whose columns are contiguous, as in Fortran and BLAS
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 96, K = 64, N = 80
// A         input, float32 [96, 64], strides (1, 96), aligned to 16 bytes
// B         input, float32 [64, 80], strides (1, 64)
// C         output, float32 [96, 80], strides (1, 96), aligned to 16 bytes
// launch    grid (3, 3, 1), block (256, 1, 1), 26112 bytes of dynamic shared memory; family gemm
//
// Made by cugen 0.1.0 from matmul_column_major.yaml (hash c093f6d8292cd20c) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: A, C.
cudaError_t matmul_column_major_launch(const float* A, const float* B, float* C, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "matmul_column_major.hpp"
#endif
#endif
