// autocorrelation: How alike each signal is to itself some samples later; the threads of a block share the terms
//
// computes  r[b, l] = sum(x[b, t] * x[b, t + l], t, where=t + l < N)
// params    B = 30, N = 5000, L = 100
// x         input, float32 [30, 5000], aligned to 16 bytes
// r         output, float32 [30, 100], aligned to 16 bytes
// launch    grid (1, 30, 1), block (32, 1, 8), 9856 bytes of shared memory; family correlation
//
// Made by cugen 0.1.0 from autocorrelation.yaml (hash c3958207ed0a87ba) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: x, r.
cudaError_t autocorrelation_launch(const float* x, float* r, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "autocorrelation.hpp"
#endif
#endif
