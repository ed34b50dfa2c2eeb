// ladder_2_coalesced: step 2: the lanes of a warp are along N, so that accesses of B and C are coalesced
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 256, N = 256, K = 256
// A         input, float32 [256, 256]
// B         input, float32 [256, 256]
// C         output, float32 [256, 256]
// launch    grid (8, 32, 1), block (32, 8, 1); family direct
//
// Made by cugen 0.1.0 from product_ladder.yaml (hash 208eb79a1f78135f) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
cudaError_t ladder_2_coalesced_launch(const float* A, const float* B, float* C, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "ladder_2_coalesced.hpp"
#endif
#endif
