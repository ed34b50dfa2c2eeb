// gemm_wgmma_f16: C = A·B in half precision by wgmma and TMA; blocks are persistent, and B is N-major
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 760, K = 128, N = 760
// A         input, float16 [760, 128], aligned to 16 bytes
// B         input, float16 [128, 760], aligned to 16 bytes
// C         output, float16 [760, 760], aligned to 16 bytes
// launch    grid (132, 1, 1), block (160, 1, 1), 40992 bytes of dynamic shared memory; family wgmma
//
// Made by cugen 0.1.0 from gemm_wgmma_f16.yaml (hash 32db737164bc47b0) for sm_90a. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>
#include <cuda_fp16.h>

#ifdef __cplusplus
extern "C" {
#else
typedef __half_raw __half;
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: A, B, C.
cudaError_t gemm_wgmma_f16_launch(const __half* A, const __half* B, __half* C, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "gemm_wgmma_f16.hpp"
#endif
#endif
