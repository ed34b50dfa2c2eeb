// decimate: A low-pass filter of 32 taps at every fourth sample; register windows of a
// thread's results slide along a tile
//
// computes  y[i] = sum(h[k] * x[4 * i + k], k)
// params    N = 300007, T = 32
// x         input, float32 [1200060], aligned to 16 bytes
// h         input, float32 [32]
// y         output, float32 [300007], aligned to 16 bytes
// launch    grid (586, 1, 1), block (128, 1, 1), 8968 bytes of shared memory; family correlation
//
// Made by cugen 0.1.0 from decimate.yaml (hash 2aa93fd33c8de8b3) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: x, y.
cudaError_t decimate_launch(const float* x, const float* h, float* y, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "decimate.hpp"
#endif
#endif
