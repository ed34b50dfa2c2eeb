// cumulative_sum: The running sum along each row
//
// computes  y[i, j] = cumsum(x[i, j], j)
// params    M = 50, N = 300
// x         input, float32 [50, 300], aligned to 16 bytes
// y         output, float32 [50, 300], aligned to 16 bytes
// launch    grid (13, 1, 1), block (32, 4, 1); family scan
//
// Made by cugen 0.1.0 from cumulative_sum.yaml (hash e6ea8f5f180d3d4a) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: x, y.
cudaError_t cumulative_sum_launch(const float* x, float* y, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "cumulative_sum.hpp"
#endif
#endif
