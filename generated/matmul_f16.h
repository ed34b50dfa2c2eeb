// matmul_f16: C = A·B on half-precision matrices; accumulated in float32 and rounded once, on the store
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 80, K = 128, N = 96
// A         input, float16 [80, 128], aligned to 16 bytes
// B         input, float16 [128, 96], aligned to 16 bytes
// C         output, float16 [80, 96], aligned to 8 bytes
// launch    grid (3, 3, 1), block (128, 1, 1), 36864 bytes of dynamic shared memory; family gemm
//
// Made by cugen 0.1.0 from matmul_f16.yaml (hash 96baf839bf2ddf30) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>
#include <cuda_fp16.h>

#ifdef __cplusplus
extern "C" {
#else
typedef __half_raw __half;
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: A, B.
// Must be aligned to 8 bytes: C.
cudaError_t matmul_f16_launch(const __half* A, const __half* B, __half* C, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "matmul_f16.hpp"
#endif
#endif
