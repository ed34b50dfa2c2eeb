// gemm_split: C = A·B with split-K; the last block of a tile to arrive reduces the partial sums in the order of k
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 40, K = 128, N = 64
// A         input, float32 [40, 128]
// B         input, float32 [128, 64], aligned to 16 bytes
// C         output, float32 [40, 64], aligned to 16 bytes
// launch    grid (8, 1, 1), block (128, 1, 1), 6404 bytes of shared memory; family gemm
//
// Made by cugen 0.1.0 from gemm_split.yaml (hash f73ab29da4862260) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Size of `workspace` in bytes.
size_t gemm_split_workspace_bytes(void);

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: B, C.
// `workspace` may be null: the launch then allocates and frees one, stream-ordered.
cudaError_t gemm_split_launch(const float* A, const float* B, float* C, void* workspace, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "gemm_split.hpp"
#endif
#endif
