// polynomial: A polynomial of degree 5 at many points, by Horner's rule
//
// computes  y[i] = fma(fma(fma(fma(fma(c[5], x[i], c[4]), x[i], c[3]), x[i], c[2]), x[i], c[1]), x[i], c[0])
// params    N = 50001
// c         input, float32 [6], constant
// x         input, float32 [50001], aligned to 16 bytes
// y         output, float32 [50001], aligned to 16 bytes
// launch    grid (49, 1, 1), block (256, 1, 1); family map
//
// Made by cugen 0.1.0 from polynomial.yaml (hash d7f448f1bd1b0f08) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: x, y.
// Constants (c) belong to the device: calls of several streams or threads run one after another.
// A CUDA graph of such calls must not run beside others, or beside calls.
cudaError_t polynomial_launch(const float* c, const float* x, float* y, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "polynomial.hpp"
#endif
#endif
