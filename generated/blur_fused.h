// blur_fused: Both passes of `blur_separable` in one launch; what lies between them stays
// in shared memory, pixel by pixel
//
// computes  rows[y, x] = sum(taps[s] * image[y, x + s - 2], s)
//           blurred[y, x] = sum(taps[r] * rows[y + r - 2, x], r)
// params    H = 150, W = 204
// image     input, float32 [150, 204], outside: clamp, aligned to 16 bytes
// taps      baked, float32 [5]
// rows      temporary, float32 [150, 204], shared, outside: clamp
// blurred   output, float32 [150, 204], aligned to 16 bytes
// launch    grid (2, 5, 1), block (32, 8, 1), 18432 bytes of shared memory; family fused_stencil
//
// Made by cugen 0.1.0 from blur_fused.yaml (hash 1e9471f4f9028c74) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: image, blurred.
cudaError_t blur_fused_launch(const float* image, float* blurred, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "blur_fused.hpp"
#endif
#endif
