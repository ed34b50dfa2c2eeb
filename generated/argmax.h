// argmax: Where each row is greatest; the first place of several, and a NaN before all
//
// computes  best[i] = argmax(x[i, j], j)
// params    M = 200, N = 333
// x         input, float32 [200, 333], aligned to 16 bytes
// best      output, int64 [200]
// launch    grid (200, 1, 1), block (128, 1, 1), 48 bytes of shared memory; family reduce
//
// Made by cugen 0.1.0 from argmax.yaml (hash fc56195d3d6c3d61) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: x.
cudaError_t argmax_launch(const float* x, long long* best, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "argmax.hpp"
#endif
#endif
