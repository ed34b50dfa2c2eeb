// gemm_tensor_int8: C = A·B of unsigned by signed 8-bit integers on tensor cores; B is copied to K-major tiles
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 48, K = 128, N = 64
// A         input, uint8 [48, 128], aligned to 16 bytes
// B         input, int8 [128, 64]
// C         output, int32 [48, 64], aligned to 8 bytes
// launch    grid (1, 2, 1), block (128, 1, 1), 18432 bytes of shared memory; family gemm
//
// Made by cugen 0.1.0 from gemm_tensor_int8.yaml (hash 3ff9b1b3fff17cf3) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: A.
// Must be aligned to 8 bytes: C.
cudaError_t gemm_tensor_int8_launch(const unsigned char* A, const signed char* B, int* C, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "gemm_tensor_int8.hpp"
#endif
#endif
