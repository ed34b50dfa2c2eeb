// gemm_f32: C = alpha·A·B + bias, the GEMM of a dense layer (small sizes, as an example)
//
// computes  C[m, n] = alpha * sum(A[m, k] * B[k, n], k) + bias[n]
// params    M = 100, K = 60, N = 132
// A         input, float32 [100, 60], shared
// B         input, float32 [60, 132], shared, aligned to 16 bytes
// bias      input, float32 [132], aligned to 16 bytes
// C         output, float32 [100, 132], aligned to 16 bytes
// launch    grid (3, 4, 1), block (64, 1, 1), 12800 bytes of shared memory; family gemm
//
// Made by cugen 0.1.0 from gemm_f32.yaml (hash 0761c3e654d32c97) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: B, bias, C.
cudaError_t gemm_f32_launch(const float* A, const float* B, const float* bias, float* C, float alpha,
    cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "gemm_f32.hpp"
#endif
#endif
