// ladder_6_stages: step 6: multistage pipeline of asynchronous copies, A transposed in shared
// memory, 16-byte fragment loads
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 256, N = 256, K = 256
// A         input, float32 [256, 256], shared
// B         input, float32 [256, 256], shared, aligned to 16 bytes
// C         output, float32 [256, 256], aligned to 16 bytes
// launch    grid (2, 2, 1), block (256, 1, 1), 16640 bytes of shared memory; family gemm
//
// Made by cugen 0.1.0 from product_ladder.yaml (hash 056ccd81c4c8483c) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: B, C.
cudaError_t ladder_6_stages_launch(const float* A, const float* B, float* C, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "ladder_6_stages.hpp"
#endif
#endif
