// gemm_slices: C = A·B with sliced-K (split-K within a block), reduced in a fixed order
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 96, K = 160, N = 128
// A         input, float32 [96, 160]
// B         input, float32 [160, 128], aligned to 16 bytes
// C         output, float32 [96, 128], aligned to 16 bytes
// launch    grid (2, 3, 1), block (256, 1, 1), 38400 bytes of dynamic shared memory; family gemm
//
// Made by cugen 0.1.0 from gemm_slices.yaml (hash 8b967efe18a26302) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: B, C.
cudaError_t gemm_slices_launch(const float* A, const float* B, float* C, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "gemm_slices.hpp"
#endif
#endif
