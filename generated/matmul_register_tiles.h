// matmul_register_tiles: C = A·B with thread tiles of 4 × 4 in registers, so that each
// shared-memory load is used four times
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 150, K = 100, N = 130
// A         input, float32 [150, 100], shared
// B         input, float32 [100, 130], shared
// C         output, float32 [150, 130]
// launch    grid (5, 3, 1), block (8, 16, 1), 6400 bytes of shared memory; family tiled
//
// Made by cugen 0.1.0 from matmul_register_tiles.yaml (hash 0bbf37ad7245569f) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
cudaError_t matmul_register_tiles_launch(const float* A, const float* B, float* C, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "matmul_register_tiles.hpp"
#endif
#endif
