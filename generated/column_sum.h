// column_sum: The sum of each column
//
// computes  y[j] = sum(x[i, j], i)
// params    M = 513, N = 300
// x         input, float32 [513, 300], aligned to 16 bytes
// y         output, float32 [300], aligned to 16 bytes
// launch    grid (10, 1, 1), block (8, 64, 1), 8192 bytes of shared memory; family reduce
//
// Made by cugen 0.1.0 from column_sum.yaml (hash c35375f5e4ee601d) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: x, y.
cudaError_t column_sum_launch(const float* x, float* y, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "column_sum.hpp"
#endif
#endif
