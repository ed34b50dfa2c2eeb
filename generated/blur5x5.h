// blur5x5: An image smoothed by a binomial filter of 5 × 5 taps; beyond its edges the image goes on as its last pixel
//
// computes  blurred[y, x] = sum(taps[r, s] * image[y + r - 2, x + s - 2], r, s)
// params    H = 150, W = 201
// image     input, float32 [150, 201], outside: clamp
// taps      baked, float32 [5, 5], constant
// blurred   output, float32 [150, 201]
// launch    grid (7, 38, 1), block (32, 4, 1); family stencil
//
// Made by cugen 0.1.0 from blur5x5.yaml (hash 18f02c6c85637456) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
cudaError_t blur5x5_launch(const float* image, float* blurred, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "blur5x5.hpp"
#endif
#endif
