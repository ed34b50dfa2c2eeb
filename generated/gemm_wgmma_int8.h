// gemm_wgmma_int8: C = A·B of 8-bit integers by wgmma and TMA; B is copied first, since wgmma reads bytes along k alone
//
// computes                C[m, n] = sum(A[m, k] * B[k, n], k)
// params                  M = 64, K = 256, N = 96
// A                       input, int8 [64, 256], aligned to 16 bytes
// B                       input, int8 [256, 96], aligned to 8 bytes
// C                       output, int32 [64, 96], aligned to 8 bytes
// gemm_wgmma_int8_B_copy  grid (4, 2, 1), block (8, 32, 1), 4224 bytes of shared memory; family transpose
// gemm_wgmma_int8_C       grid (3, 1, 1), block (160, 1, 1), 24592 bytes of dynamic shared memory; family wgmma
//
// Made by cugen 0.1.0 from gemm_wgmma_int8.yaml (hash d1039c605c1a6655) for sm_90a. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Size of `workspace` in bytes.
size_t gemm_wgmma_int8_workspace_bytes(void);

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: A.
// Must be aligned to 8 bytes: B, C.
// `workspace` may be null: the launch then allocates and frees one, stream-ordered.
cudaError_t gemm_wgmma_int8_launch(const signed char* A, const signed char* B, int* C, void* workspace,
    cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "gemm_wgmma_int8.hpp"
#endif
#endif
