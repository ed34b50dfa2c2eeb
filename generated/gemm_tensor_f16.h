// gemm_tensor_f16: C = relu(Aᵀ·B + bias) in half precision on tensor cores; ldmatrix transposes the
// fragments of M- and N-major tiles
//
// computes  C[m, n] = relu(sum(A[k, m] * B[k, n], k) + bias[n])
// params    M = 72, K = 96, N = 136
// A         input, float16 [96, 72], aligned to 16 bytes
// B         input, float16 [96, 136], aligned to 16 bytes
// bias      input, float32 [136], aligned to 16 bytes
// C         output, float16 [72, 136], aligned to 8 bytes
// launch    grid (3, 3, 1), block (128, 1, 1), 19968 bytes of dynamic shared memory; family gemm
//
// Made by cugen 0.1.0 from gemm_tensor_f16.yaml (hash 463cd9479cec57a5) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>
#include <cuda_fp16.h>

#ifdef __cplusplus
extern "C" {
#else
typedef __half_raw __half;
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: A, B, bias.
// Must be aligned to 8 bytes: C.
cudaError_t gemm_tensor_f16_launch(const __half* A, const __half* B, const float* bias, __half* C, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "gemm_tensor_f16.hpp"
#endif
#endif
