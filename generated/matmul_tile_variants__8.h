// matmul_tile_variants__8: C = A·B with tiles of 8 × 8
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 70, K = 45, N = 83
// A         input, float32 [70, 45], shared
// B         input, float32 [45, 83], shared
// C         output, float32 [70, 83]
// launch    grid (11, 9, 1), block (8, 8, 1), 512 bytes of shared memory; family tiled
//
// Made by cugen 0.1.0 from matmul_tile_variants.yaml (hash d3f3e111a66f0651) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
cudaError_t matmul_tile_variants__8_launch(const float* A, const float* B, float* C, cudaStream_t stream);

// Blocks that are resident at once on an SM of the current device.
cudaError_t matmul_tile_variants__8_blocks_per_sm(int* blocks);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "matmul_tile_variants__8.hpp"
#endif
#endif
