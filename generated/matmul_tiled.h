// matmul_tiled: C = A·B; tiles of A and B are staged through shared memory
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 1000, K = 513, N = 777
// A         input, float32 [1000, 513], shared
// B         input, float32 [513, 777], shared
// C         output, float32 [1000, 777]
// launch    grid (49, 63, 1), block (16, 16, 1), 2048 bytes of shared memory; family tiled
//
// Made by cugen 0.1.0 from matmul_tiled.yaml (hash 481af32f968e1a87) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
cudaError_t matmul_tiled_launch(const float* A, const float* B, float* C, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "matmul_tiled.hpp"
#endif
#endif
