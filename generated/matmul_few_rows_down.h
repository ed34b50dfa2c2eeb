// matmul_few_rows_down: Skinny GEMM with an N-major B; threads compute consecutive
// columns, the warps of a block split K
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 3, K = 192, N = 260
// A         input, float32 [3, 192], aligned to 16 bytes
// B         input, float32 [192, 260], aligned to 16 bytes
// C         output, float32 [3, 260]
// launch    grid (3, 1, 1), block (32, 8, 1), 4096 bytes of shared memory; family skinny
//
// Made by cugen 0.1.0 from matmul_few_rows_down.yaml (hash 19a5f38dfff67dd3) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: A, B.
cudaError_t matmul_few_rows_down_launch(const float* A, const float* B, float* C, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "matmul_few_rows_down.hpp"
#endif
#endif
