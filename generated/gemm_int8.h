// gemm_int8: C = A·B on 8-bit integers with 32-bit accumulators; N is dynamic
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 40, K = 24, N (dynamic, 1 to 65536, multiples of 16)
// A         input, int8 [40, 24]
// B         input, int8 [24, N], aligned to 16 bytes
// C         output, int32 [40, N], aligned to 16 bytes
// launch    grid ((N + 31) // 32, 3, 1), block (32, 1, 1), 3072 bytes of shared memory; family gemm
//
// Made by cugen 0.1.0 from gemm_int8.yaml (hash 78c79e275cfb03cd) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: B, C.
cudaError_t gemm_int8_launch(const signed char* A, const signed char* B, int* C, int N, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "gemm_int8.hpp"
#endif
#endif
