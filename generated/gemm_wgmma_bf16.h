// gemm_wgmma_bf16: C = gelu(A·Bᵀ + bias) in bfloat16 by wgmma and TMA, as of a linear layer on a dynamic number of rows
//
// computes  C[m, n] = gelu(sum(A[m, k] * B[n, k], k) + bias[n])
// params    M (dynamic, 1 to 65536), K = 320, N = 192
// A         input, bfloat16 [M, 320], aligned to 16 bytes
// B         input, bfloat16 [192, 320], aligned to 16 bytes
// bias      input, float32 [192], aligned to 8 bytes
// C         output, bfloat16 [M, 192], aligned to 16 bytes
// launch    grid (minimum(((M + 63) // 64) * 3, 132), 1, 1), block (160, 1, 1), 57392 bytes of dynamic shared
//           memory; family wgmma
//
// Made by cugen 0.1.0 from gemm_wgmma_bf16.yaml (hash 35ea69823c8e1a5d) for sm_90a. Edit the spec, not this file.
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
// Must be aligned to 8 bytes: bias.
cudaError_t gemm_wgmma_bf16_launch(const __nv_bfloat16* A, const __nv_bfloat16* B, const float* bias, __nv_bfloat16* C,
    int M, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "gemm_wgmma_bf16.hpp"
#endif
#endif
