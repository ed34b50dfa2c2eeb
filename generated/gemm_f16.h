// gemm_f16: C = Aᵀ·B + C in half precision with float32 accumulators, on CUDA cores
//
// computes  C[m, n] += sum(A[k, m] * B[k, n], k)
// params    M = 128, K = 48, N = 136
// A         input, float16 [48, 128], aligned to 16 bytes
// B         input, float16 [48, 136], aligned to 16 bytes
// C         inout, float16 [128, 136], aligned to 16 bytes
// launch    grid (3, 4, 1), block (32, 1, 1), 6144 bytes of shared memory; family gemm
//
// Made by cugen 0.1.0 from gemm_f16.yaml (hash 3560027a78c15697) for sm_90. Edit the spec, not this file.
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
cudaError_t gemm_f16_launch(const __half* A, const __half* B, __half* C, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "gemm_f16.hpp"
#endif
#endif
