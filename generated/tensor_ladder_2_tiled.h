// tensor_ladder_2_tiled: step 2: block tiles in shared memory, thread tile 8 × 8: 16 elements feed 64 multiply-adds
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 128, N = 256, K = 96
// A         input, bfloat16 [128, 96], shared
// B         input, bfloat16 [96, 256], shared
// C         output, bfloat16 [128, 256]
// launch    grid (2, 1, 1), block (16, 16, 1), 4096 bytes of shared memory; family tiled
//
// Made by cugen 0.1.0 from product_ladder_bf16.yaml (hash 0d631c2aafab6ee0) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>
#include <cuda_bf16.h>

#ifdef __cplusplus
extern "C" {
#else
typedef __nv_bfloat16_raw __nv_bfloat16;
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
cudaError_t tensor_ladder_2_tiled_launch(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C,
    cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "tensor_ladder_2_tiled.hpp"
#endif
#endif
