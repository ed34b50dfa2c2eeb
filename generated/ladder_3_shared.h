// ladder_3_shared: step 3: block tiles of A and B in shared memory, where each element is loaded 32 times
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 256, N = 256, K = 256
// A         input, float32 [256, 256], shared
// B         input, float32 [256, 256], shared
// C         output, float32 [256, 256]
// launch    grid (8, 8, 1), block (32, 32, 1), 8192 bytes of shared memory; family tiled
//
// Made by cugen 0.1.0 from product_ladder.yaml (hash 90915d82a9a00b81) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
cudaError_t ladder_3_shared_launch(const float* A, const float* B, float* C, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "ladder_3_shared.hpp"
#endif
#endif
