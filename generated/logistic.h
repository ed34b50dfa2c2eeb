// logistic: The slope of a logistic curve, by the fast functions of the special function units
//
// computes  decay[i] = exp(-abs(steepness * x[i]))
//           slope[i] = steepness * decay[i] / (1 + decay[i])**2
// params    N = 30001
// x         input, float16 [30001], aligned to 16 bytes
// slope     output, float16 [30001], aligned to 16 bytes
// launch    grid (4, 1, 1), block (256, 1, 1); family map
//
// Made by cugen 0.1.0 from logistic.yaml (hash 9d0f7346e6409fdb) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>
#include <cuda_fp16.h>

#ifdef __cplusplus
extern "C" {
#else
typedef __half_raw __half;
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: x, slope.
cudaError_t logistic_launch(const __half* x, __half* slope, float steepness, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "logistic.hpp"
#endif
#endif
