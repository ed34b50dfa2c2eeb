// transpose_shared: B = Aᵀ through a shared tile; both sides are contiguous in global memory, but the
// tile's columns lie in one bank
//
// computes  B[n, m] = A[m, n]
// params    M = 256, N = 192
// A         input, float32 [256, 192], shared
// B         output, float32 [192, 256]
// launch    grid (8, 6, 1), block (32, 8, 1), 4096 bytes of shared memory; family transpose
//
// Made by cugen 0.1.0 from transpose_shared.yaml (hash cf6a97d6e094a82c) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
cudaError_t transpose_shared_launch(const float* A, float* B, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "transpose_shared.hpp"
#endif
#endif
