// transpose_naive: B = Aᵀ without shared memory; the stores are contiguous, and each read of a
// warp falls into another sector
//
// computes  B[n, m] = A[m, n]
// params    M = 300, N = 200
// A         input, float32 [300, 200]
// B         output, float32 [200, 300]
// launch    grid (10, 25, 1), block (32, 8, 1); family direct
//
// Made by cugen 0.1.0 from transpose_naive.yaml (hash 1f0949c4bd098189) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
cudaError_t transpose_naive_launch(const float* A, float* B, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "transpose_naive.hpp"
#endif
#endif
