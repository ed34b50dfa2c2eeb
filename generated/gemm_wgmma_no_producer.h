// gemm_wgmma_no_producer: C = A·Bᵀ in bfloat16 by wgmma and TMA without a producer warp; one thread refills a
// stage after a barrier of the block
//
// computes  C[m, n] = sum(A[m, k] * B[n, k], k)
// params    M = 248, K = 512, N = 256
// A         input, bfloat16 [248, 512], aligned to 16 bytes
// B         input, bfloat16 [256, 512], aligned to 16 bytes
// C         output, bfloat16 [248, 256], aligned to 16 bytes
// launch    grid (4, 1, 1), block (256, 1, 1), 131096 bytes of dynamic shared memory; family wgmma
//
// Made by cugen 0.1.0 from gemm_wgmma_no_producer.yaml (hash 89c072e6ca9b638a) for
// sm_90a. Edit the spec, not this file.
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
cudaError_t gemm_wgmma_no_producer_launch(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C,
    cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "gemm_wgmma_no_producer.hpp"
#endif
#endif
