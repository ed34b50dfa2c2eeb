// logistic: A logistic curve and its slope, by the fast functions of the special function units
//
// computes  decay[i] = exp(-abs(steepness * x[i]))
//           curve[i] = where(x[i] >= 0, 1, decay[i]) / (1 + decay[i])
//           slope[i] = steepness * decay[i] / (1 + decay[i])**2
// params    N = 30001
// x         input, float32 [30001], aligned to 16 bytes
// curve     output, float32 [30001], aligned to 16 bytes
// slope     output, float32 [30001], aligned to 16 bytes
// launch    grid (30, 1, 1), block (256, 1, 1); family map
//
// Made by cugen 0.1.0 from logistic.yaml (hash 135f90719356457e) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// x must be aligned to 16 bytes.
// curve must be aligned to 16 bytes.
// slope must be aligned to 16 bytes.
cudaError_t logistic_launch(const float* x, float* curve, float* slope, float steepness, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "logistic.hpp"
#endif
#endif
