// enlarge: An image enlarged by bilinear interpolation, in the texture hardware, with weights in steps of 1/256
//
// computes  y[i, j] = x[(i + 0.5) * (H / M) - 0.5, (j + 0.5) * (W / N) - 0.5]
// params    H = 270, W = 480, M = 405, N = 720
// x         input, float32 [270, 480], 2-D texture, filtered, outside: clamp, aligned to 512 bytes
// y         output, float32 [405, 720], aligned to 16 bytes
// launch    grid (6, 51, 1), block (32, 8, 1); family map
//
// Made by cugen 0.1.0 from enlarge.yaml (hash 6f08bb8ddda3d5c2) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 512 bytes: x.
// Must be aligned to 16 bytes: y.
// Texture objects of x: one is made for each address on a device, and kept until the process ends.
cudaError_t enlarge_launch(const float* x, float* y, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "enlarge.hpp"
#endif
#endif
