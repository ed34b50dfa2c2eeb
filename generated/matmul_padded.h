// matmul_padded: C = A·B with blocks of 32 × 8, whose reads of A's tile would have bank conflicts without padding
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 130, K = 70, N = 90
// A         input, float32 [130, 70], shared
// B         input, float32 [70, 90], shared
// C         output, float32 [130, 90]
// launch    grid (12, 5, 1), block (8, 32, 1), 6144 bytes of shared memory; family tiled
//
// Made by cugen 0.1.0 from matmul_padded.yaml (hash b851cc0010e23b55) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
cudaError_t matmul_padded_launch(const float* A, const float* B, float* C, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "matmul_padded.hpp"
#endif
#endif
