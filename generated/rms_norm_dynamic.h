// rms_norm_dynamic: Each row scaled to root mean square 1, for any number of rows
//
// computes  scale[i] = rsqrt(mean(x[i, j] * x[i, j], j) + eps)
//           y[i, j] = x[i, j] * scale[i] * weight[j]
// params    M (dynamic), N (dynamic, 64 to 8192, multiples of 64)
// x         input, float32 [M, N], aligned to 16 bytes
// weight    input, float32 [N], aligned to 16 bytes
// y         output, float32 [M, N], aligned to 16 bytes
// launch    grid (M, 1, 1), block (256, 1, 1), 32 bytes of shared memory; family rowwise
//
// Made by cugen 0.1.0 from rms_norm_dynamic.yaml (hash ddbd1abf96899ff0) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: x, weight, y.
cudaError_t rms_norm_dynamic_launch(const float* x, const float* weight, float* y, float eps, int M, int N,
    cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "rms_norm_dynamic.hpp"
#endif
#endif
