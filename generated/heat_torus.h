// heat_torus: A step of the heat equation on a torus; the texture hardware wraps the coordinates
//
// computes  next[y, x] = u[y, x] + rate * (u[y - 1, x] + u[y + 1, x] + u[y, x - 1] + u[y, x + 1] - 4 * u[y, x])
// params    H = 270, W = 480
// u         input, float32 [270, 480], 2-D texture, outside: wrap, aligned to 512 bytes
// next      output, float32 [270, 480]
// launch    grid (15, 68, 1), block (32, 4, 1); family stencil
//
// Made by cugen 0.1.0 from heat_torus.yaml (hash 30751e8f0684a6c2) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 512 bytes: u.
// Texture objects of u: one is made for each address on a device, and kept until the process ends.
cudaError_t heat_torus_launch(const float* u, float* next, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "heat_torus.hpp"
#endif
#endif
