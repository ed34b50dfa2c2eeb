// tensor_ladder_5_wgmma: step 5: wgmma reads tiles that TMA copies: one thread copies, a warpgroup multiplies 64 × 64
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 128, N = 256, K = 96
// A         input, bfloat16 [128, 96], aligned to 16 bytes
// B         input, bfloat16 [96, 256], aligned to 16 bytes
// C         output, bfloat16 [128, 256], aligned to 16 bytes
// launch    grid (8, 1, 1), block (160, 1, 1), 40976 bytes of dynamic shared memory; family wgmma
//
// Made by cugen 0.1.0 from product_ladder_bf16.yaml (hash a6c56484ffa0190e) for sm_90a. Edit the spec, not this file.
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
cudaError_t tensor_ladder_5_wgmma_launch(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C,
    cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "tensor_ladder_5_wgmma.hpp"
#endif
#endif
