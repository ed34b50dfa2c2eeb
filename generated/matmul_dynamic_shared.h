// matmul_dynamic_shared: C = A·B with tiles in `extern __shared__`, which may be larger than
// the 48 KB of static shared memory
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 100, K = 130, N = 140
// A         input, float32 [100, 130], shared
// B         input, float32 [130, 140], shared
// C         output, float32 [100, 140]
// launch    grid (5, 4, 1), block (32, 32, 1), 8320 bytes of dynamic shared memory; family tiled
//
// Made by cugen 0.1.0 from matmul_dynamic_shared.yaml (hash 7dd5ab814c249891) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
cudaError_t matmul_dynamic_shared_launch(const float* A, const float* B, float* C, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "matmul_dynamic_shared.hpp"
#endif
#endif
