// blur_shared: The smoothed image of blur5x5; each block stages its tile of the image with a
// halo of 2 pixels in shared memory
//
// computes  blurred[y, x] = sum(taps[r, s] * image[y + r - 2, x + s - 2], r, s)
// params    H = 150, W = 201
// image     input, float32 [150, 201], shared, outside: clamp
// taps      baked, float32 [5, 5], constant
// blurred   output, float32 [150, 201]
// launch    grid (7, 19, 1), block (32, 8, 1), 1728 bytes of shared memory; family staged
//
// Made by cugen 0.1.0 from blur_shared.yaml (hash 1bf89d0e4b55b95f) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
cudaError_t blur_shared_launch(const float* image, float* blurred, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "blur_shared.hpp"
#endif
#endif
