// transpose_padded: B = Aᵀ through a shared tile with rows of 33 words, which spread a column over all 32 banks
//
// computes  B[n, m] = A[m, n]
// params    M = 300, N = 200
// A         input, float32 [300, 200], shared
// B         output, float32 [200, 300]
// launch    grid (10, 7, 1), block (32, 8, 1), 4224 bytes of shared memory; family transpose
//
// Made by cugen 0.1.0 from transpose_padded.yaml (hash 346b242eedf9ed92) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
cudaError_t transpose_padded_launch(const float* A, float* B, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "transpose_padded.hpp"
#endif
#endif
