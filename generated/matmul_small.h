// matmul_small: Small batched GEMM with a dynamic batch and a bias; several matrices per block
//
// computes  C[z, m, n] = sum(A[z, m, k] * B[z, k, n], k) + bias[n]
// params    Z (dynamic, 0 to 1000000), M = 16, K = 12, N = 16
// A         input, float32 [Z, 16, 12], aligned to 16 bytes
// B         input, float32 [Z, 12, 16], aligned to 16 bytes
// bias      input, float32 [16], aligned to 16 bytes
// C         output, float32 [Z, 16, 16], aligned to 16 bytes
// launch    grid ((Z + 7) // 8, 1, 1), block (16, 8, 1), 12288 bytes of shared memory; family batched
//
// Made by cugen 0.1.0 from matmul_small.yaml (hash bd451781351463e6) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: A, B, bias, C.
cudaError_t matmul_small_launch(const float* A, const float* B, const float* bias, float* C, int Z,
    cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "matmul_small.hpp"
#endif
#endif
