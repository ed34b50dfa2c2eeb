// gemm_wgmma_swap_ab: C = A·Bᵀ + bias in half precision by wgmma and TMA; C is computed
// transposed, in tiles of 104 rows
//
// computes  C[m, n] = sum(A[m, k] * B[n, k], k) + bias[m]
// params    M = 200, K = 160, N = 136
// A         input, float16 [200, 160], aligned to 16 bytes
// B         input, float16 [136, 160], aligned to 16 bytes
// bias      input, float32 [200]
// C         output, float16 [200, 136], aligned to 16 bytes
// launch    grid (6, 1, 1), block (160, 1, 1), 56352 bytes of dynamic shared memory; family wgmma
//
// Made by cugen 0.1.0 from gemm_wgmma_swap_ab.yaml (hash 5b03439163c0f32d) for sm_90a. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>
#include <cuda_fp16.h>

#ifdef __cplusplus
extern "C" {
#else
typedef __half_raw __half;
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: A, B, C.
cudaError_t gemm_wgmma_swap_ab_launch(const __half* A, const __half* B, const float* bias, __half* C,
    cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "gemm_wgmma_swap_ab.hpp"
#endif
#endif
