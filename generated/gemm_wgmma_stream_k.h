// gemm_wgmma_stream_k: C = A·B by wgmma and TMA with stream-K; blocks divide the k-tiles of all tiles, and one block of
// a tile adds up the partial sums
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 120, K = 640, N = 160
// A         input, float16 [120, 640], aligned to 16 bytes
// B         input, float16 [640, 160], aligned to 16 bytes
// C         output, float16 [120, 160], aligned to 16 bytes
// launch    grid (10, 1, 1), block (160, 1, 1), 108612 bytes of dynamic shared memory; family wgmma
//
// Made by cugen 0.1.0 from gemm_wgmma_stream_k.yaml (hash 317823f903cccdf5) for sm_90a. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>
#include <cuda_fp16.h>

#ifdef __cplusplus
extern "C" {
#else
typedef __half_raw __half;
#endif

// Size of `workspace` in bytes.
size_t gemm_wgmma_stream_k_workspace_bytes(void);

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: A, B, C.
// `workspace` may be null: the launch then allocates and frees one, stream-ordered.
cudaError_t gemm_wgmma_stream_k_launch(const __half* A, const __half* B, __half* C, void* workspace,
    cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "gemm_wgmma_stream_k.hpp"
#endif
#endif
