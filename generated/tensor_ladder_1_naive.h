// tensor_ladder_1_naive: step 1: one thread per output on CUDA cores, with the lanes of a warp along N
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 128, N = 256, K = 96
// A         input, bfloat16 [128, 96]
// B         input, bfloat16 [96, 256]
// C         output, bfloat16 [128, 256]
// launch    grid (8, 16, 1), block (32, 8, 1); family direct
//
// Made by cugen 0.1.0 from product_ladder_bf16.yaml (hash 0ebd3f3f13e18c5b) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>
#include <cuda_bf16.h>

#ifdef __cplusplus
extern "C" {
#else
typedef __nv_bfloat16_raw __nv_bfloat16;
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
cudaError_t tensor_ladder_1_naive_launch(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C,
    cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "tensor_ladder_1_naive.hpp"
#endif
#endif
