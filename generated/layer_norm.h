// layer_norm: Each row brought to mean 0 and variance 1, then scaled and shifted
//
// computes  mu[i] = mean(x[i, j], j)
//           scale[i] = rsqrt(var(x[i, j], j) + eps)
//           y[i, j] = (x[i, j] - mu[i]) * scale[i] * gamma[j] + beta[j]
// params    M = 96, N = 200
// x         input, float32 [96, 200], aligned to 16 bytes
// gamma     input, float32 [200], aligned to 16 bytes
// beta      input, float32 [200], aligned to 16 bytes
// y         output, float32 [96, 200], aligned to 16 bytes
// launch    grid (24, 1, 1), block (32, 4, 1); family rowwise
//
// Made by cugen 0.1.0 from layer_norm.yaml (hash 01977706383a6c00) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: x, gamma_, beta, y.
cudaError_t layer_norm_launch(const float* x, const float* gamma_, const float* beta, float* y, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "layer_norm.hpp"
#endif
#endif
