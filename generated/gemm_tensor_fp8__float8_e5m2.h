// gemm_tensor_fp8__float8_e5m2: C = scale · A·Bᵀ of 8-bit floats on tensor cores, with A in either format
//
// computes  C[m, n] = scale * sum(A[m, k] * B[n, k], k)
// params    M = 48, K = 160, N = 80
// A         input, float8_e5m2 [48, 160], aligned to 16 bytes
// B         input, float8_e4m3 [80, 160], aligned to 16 bytes
// C         output, bfloat16 [48, 80], aligned to 8 bytes
// launch    grid (3, 2, 1), block (64, 1, 1), 12288 bytes of dynamic shared memory; family gemm
//
// Made by cugen 0.1.0 from gemm_tensor_fp8.yaml (hash 5cdd65490b74d7a4) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>

#ifdef __cplusplus
extern "C" {
#else
typedef __nv_fp8_storage_t __nv_fp8_e5m2;
typedef __nv_fp8_storage_t __nv_fp8_e4m3;
typedef __nv_bfloat16_raw __nv_bfloat16;
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: A, B.
// Must be aligned to 8 bytes: C.
cudaError_t gemm_tensor_fp8__float8_e5m2_launch(const __nv_fp8_e5m2* A, const __nv_fp8_e4m3* B, __nv_bfloat16* C,
    float scale, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "gemm_tensor_fp8__float8_e5m2.hpp"
#endif
#endif
