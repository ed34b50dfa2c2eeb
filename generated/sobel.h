// sobel: How steep an image is at each pixel, by Sobel's two filters
//
// computes   gx[y, x] = (image[y - 1, x + 1] + 2 * image[y, x + 1] + image[y + 1, x + 1] - image[y - 1, x - 1] - 2
//            * image[y, x - 1] - image[y + 1, x - 1])
//            gy[y, x] = (image[y + 1, x - 1] + 2 * image[y + 1, x] + image[y + 1, x + 1] - image[y - 1, x - 1] - 2
//            * image[y - 1, x] - image[y - 1, x + 1])
//            magnitude[y, x] = sqrt(gx[y, x] * gx[y, x] + gy[y, x] * gy[y, x])
// params     H = 150, W = 201
// image      input, float32 [150, 201], outside: clamp
// magnitude  output, float32 [150, 201]
// launch     grid (7, 38, 1), block (32, 4, 1); family stencil
//
// Made by cugen 0.1.0 from sobel.yaml (hash c8d75bd4541c3531) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
cudaError_t sobel_launch(const float* image, float* magnitude, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "sobel.hpp"
#endif
#endif
