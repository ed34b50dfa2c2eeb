// gemm_tensor_tf32: C = A·B of float32 on tensor cores, where `accumulate` allows that operands are rounded to tf32
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 66, K = 72, N = 100
// A         input, float32 [66, 72], aligned to 16 bytes
// B         input, float32 [72, 100], aligned to 16 bytes
// C         output, float32 [66, 100], aligned to 8 bytes
// launch    grid (2, 3, 1), block (128, 1, 1), 18432 bytes of shared memory; family gemm
//
// Made by cugen 0.1.0 from gemm_tensor_tf32.yaml (hash 361258e9517747fe) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: A, B.
// Must be aligned to 8 bytes: C.
cudaError_t gemm_tensor_tf32_launch(const float* A, const float* B, float* C, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "gemm_tensor_tf32.hpp"
#endif
#endif
