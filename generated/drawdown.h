// drawdown: How far prices fell below their highest so far
//
// computes  fall[t, k] = cummax(price[t, k], t) - price[t, k]
// params    T = 730, K = 300
// price     input, float32 [730, 300], aligned to 16 bytes
// fall      output, float32 [730, 300], aligned to 16 bytes
// launch    grid (10, 1, 1), block (8, 64, 1), 4096 bytes of shared memory; family scan
//
// Made by cugen 0.1.0 from drawdown.yaml (hash b63fad2d30b6963d) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: price, fall.
cudaError_t drawdown_launch(const float* price, float* fall, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "drawdown.hpp"
#endif
#endif
