// gemm_wgmma_fp8: C = scale · A·Bᵀ of 8-bit floats by wgmma and TMA; the sums of a k-tile are added in float32
//
// computes  C[m, n] = scale * sum(A[m, k] * B[n, k], k)
// params    M = 256, K = 512, N = 192
// A         input, float8_e4m3 [256, 512], aligned to 16 bytes
// B         input, float8_e4m3 [192, 512], aligned to 16 bytes
// C         output, bfloat16 [256, 192], aligned to 16 bytes
// launch    grid (4, 1, 1), block (384, 1, 1), 110640 bytes of dynamic shared memory; family wgmma
//
// Made by cugen 0.1.0 from gemm_wgmma_fp8.yaml (hash 866e1b6caf7fdd69) for sm_90a. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>

#ifdef __cplusplus
extern "C" {
#else
typedef __nv_fp8_storage_t __nv_fp8_e4m3;
typedef __nv_bfloat16_raw __nv_bfloat16;
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: A, B, C.
cudaError_t gemm_wgmma_fp8_launch(const __nv_fp8_e4m3* A, const __nv_fp8_e4m3* B, __nv_bfloat16* C, float scale,
    cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "gemm_wgmma_fp8.hpp"
#endif
#endif
