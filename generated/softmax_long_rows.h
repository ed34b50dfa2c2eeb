// softmax_long_rows: The softmax of rows that a cluster of four blocks shares, through each other's shared memory
//
// computes  y[i, j] = softmax(x[i, j], j)
// params    M = 9, N = 40000
// x         input, float32 [9, 40000], aligned to 16 bytes
// y         output, float32 [9, 40000], aligned to 16 bytes
// launch    grid (36, 1, 1), block (512, 1, 1), clusters of 4, 160 bytes of shared memory; family rowwise
//
// Made by cugen 0.1.0 from softmax_long_rows.yaml (hash 45e763aad7b0e395) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: x, y.
cudaError_t softmax_long_rows_launch(const float* x, float* y, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "softmax_long_rows.hpp"
#endif
#endif
