// matmul_bias_relu: C = relu(A·B + bias), a dense layer; bias and relu are the epilogue, applied in registers
//
// computes  product[m, n] = sum(A[m, k] * B[k, n], k)
//           C[m, n] = relu(product[m, n] + bias[n])
// params    M = 70, K = 96, N = 100
// A         input, float32 [70, 96], shared
// B         input, float32 [96, 100], shared
// bias      input, float32 [100]
// C         output, float32 [70, 100]
// launch    grid (7, 5, 1), block (16, 16, 1), 2048 bytes of shared memory; family tiled
//
// Made by cugen 0.1.0 from matmul_bias_relu.yaml (hash 4c16db40106eff77) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
cudaError_t matmul_bias_relu_launch(const float* A, const float* B, const float* bias, float* C, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "matmul_bias_relu.hpp"
#endif
#endif
