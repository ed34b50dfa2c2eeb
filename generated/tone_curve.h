// tone_curve: A photo through a tone curve, which is fetched from a texture
//
// computes  toned[y, x] = curve[photo[y, x]]
// params    H = 270, W = 481
// photo     input, uint8 [270, 481]
// curve     input, float32 [256], texture, aligned to 512 bytes
// toned     output, float32 [270, 481]
// launch    grid (2, 270, 1), block (256, 1, 1); family map
//
// Made by cugen 0.1.0 from tone_curve.yaml (hash 80bccdab91be4374) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 512 bytes: curve.
// Texture objects of curve: one is made for each address on a device, and kept until the process ends.
cudaError_t tone_curve_launch(const unsigned char* photo, const float* curve, float* toned, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "tone_curve.hpp"
#endif
#endif
