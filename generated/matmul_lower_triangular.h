// matmul_lower_triangular: C = L·B with L lower triangular; elements above the diagonal are never read
//
// computes  C[m, n] = sum(L[m, k] * B[k, n], k, where=k <= m)
// params    M = 120, N = 75
// L         input, float32 [120, 120]
// B         input, float32 [120, 75]
// C         output, float32 [120, 75]
// launch    grid (3, 15, 1), block (32, 8, 1); family direct
//
// Made by cugen 0.1.0 from matmul_lower_triangular.yaml (hash 163faebee414c40c) for
// sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
cudaError_t matmul_lower_triangular_launch(const float* L, const float* B, float* C, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "matmul_lower_triangular.hpp"
#endif
#endif
