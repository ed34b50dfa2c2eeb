// gemm_tensor_bf16: C = A·Bᵀ in bfloat16 on tensor cores, as of a linear layer on a dynamic number of rows
//
// computes  C[m, n] = sum(A[m, k] * B[n, k], k)
// params    M (dynamic, 1 to 65536), K = 80, N = 96
// A         input, bfloat16 [M, 80], aligned to 16 bytes
// B         input, bfloat16 [96, 80], aligned to 16 bytes
// C         output, bfloat16 [M, 96], aligned to 8 bytes
// launch    grid (3, (M + 31) // 32, 1), block (64, 1, 1), 12288 bytes of dynamic shared memory; family gemm
//
// Made by cugen 0.1.0 from gemm_tensor_bf16.yaml (hash 2e493dfef3d29d7a) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>
#include <cuda_bf16.h>

#ifdef __cplusplus
extern "C" {
#else
typedef __nv_bfloat16_raw __nv_bfloat16;
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: A, B.
// Must be aligned to 8 bytes: C.
cudaError_t gemm_tensor_bf16_launch(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M,
    cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "gemm_tensor_bf16.hpp"
#endif
#endif
