// matmul_int8: C = A·B on 8-bit integers with 32-bit accumulators, as in quantised networks
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 60, K = 200, N = 90
// A         input, int8 [60, 200], aligned to 8 bytes
// B         input, int8 [200, 90]
// C         output, int32 [60, 90], aligned to 8 bytes
// launch    grid (3, 2, 1), block (128, 1, 1), 16384 bytes of shared memory; family gemm
//
// Made by cugen 0.1.0 from matmul_int8.yaml (hash e6e6a92724a564f5) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 8 bytes: A, C.
cudaError_t matmul_int8_launch(const signed char* A, const signed char* B, int* C, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "matmul_int8.hpp"
#endif
#endif
