// gemm_wgmma_split: C = A·Bᵀ by wgmma and TMA with split-K; the blocks of a cluster reduce the partial sums
//
// computes  C[m, n] = sum(A[m, k] * B[n, k], k)
// params    M = 64, K = 512, N = 128
// A         input, bfloat16 [64, 512], aligned to 16 bytes
// B         input, bfloat16 [128, 512], aligned to 16 bytes
// C         output, float32 [64, 128], aligned to 16 bytes
// launch    grid (4, 1, 1), block (160, 1, 1), clusters of 2, 32800 bytes of dynamic shared memory; family wgmma
//
// Made by cugen 0.1.0 from gemm_wgmma_split.yaml (hash d0bbc4454acdb443) for sm_90a. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>
#include <cuda_bf16.h>

#ifdef __cplusplus
extern "C" {
#else
typedef __nv_bfloat16_raw __nv_bfloat16;
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: A, B, C.
cudaError_t gemm_wgmma_split_launch(const __nv_bfloat16* A, const __nv_bfloat16* B, float* C, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "gemm_wgmma_split.hpp"
#endif
#endif
