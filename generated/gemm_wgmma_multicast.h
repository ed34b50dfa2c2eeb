// gemm_wgmma_multicast: C = A·Bᵀ in half precision by wgmma and TMA; the two blocks of a cluster
// each copy half of B's tile to both
//
// computes  C[m, n] = sum(A[m, k] * B[n, k], k)
// params    M = 248, K = 256, N = 128
// A         input, float16 [248, 256], aligned to 16 bytes
// B         input, float16 [128, 256], aligned to 16 bytes
// C         output, float32 [248, 128], aligned to 8 bytes
// launch    grid (8, 1, 1), block (160, 1, 1), clusters of 2, 49200 bytes of dynamic shared memory; family wgmma
//
// Made by cugen 0.1.0 from gemm_wgmma_multicast.yaml (hash 772d9b02def43cf4) for sm_90a. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>
#include <cuda_fp16.h>

#ifdef __cplusplus
extern "C" {
#else
typedef __half_raw __half;
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: A, B.
// Must be aligned to 8 bytes: C.
cudaError_t gemm_wgmma_multicast_launch(const __half* A, const __half* B, float* C, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "gemm_wgmma_multicast.hpp"
#endif
#endif
