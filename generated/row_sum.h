// row_sum: The sum of each row
//
// computes  y[i] = sum(x[i, j], j)
// params    M = 300, N = 513
// x         input, float32 [300, 513], aligned to 16 bytes
// y         output, float32 [300]
// launch    grid (300, 1, 1), block (256, 1, 1), 32 bytes of shared memory; family reduce
//
// Made by cugen 0.1.0 from row_sum.yaml (hash c40e7c72b7405143) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: x.
cudaError_t row_sum_launch(const float* x, float* y, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "row_sum.hpp"
#endif
#endif
