// ladder_9_shared_out: step 9: stream-K; the k-tiles of the last wave are distributed evenly over all multiprocessors
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 256, N = 256, K = 256
// A         input, float32 [256, 256], shared
// B         input, float32 [256, 256], shared, aligned to 16 bytes
// C         output, float32 [256, 256], aligned to 16 bytes
// launch    grid (16, 1, 1), block (256, 1, 1), 24836 bytes of shared memory; family gemm
//
// Made by cugen 0.1.0 from product_ladder.yaml (hash 83906a9532927016) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Size of `workspace` in bytes.
size_t ladder_9_shared_out_workspace_bytes(void);

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: B, C.
// `workspace` may be null: the launch then allocates and frees one, stream-ordered.
cudaError_t ladder_9_shared_out_launch(const float* A, const float* B, float* C, void* workspace, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "ladder_9_shared_out.hpp"
#endif
#endif
