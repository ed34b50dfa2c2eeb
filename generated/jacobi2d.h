// jacobi2d: One Jacobi step for Laplace's equation; the values on the edge are given and stay as they are
//
// computes  next[i, j] = where(0 < i and i < H - 1 and 0 < j and j < W - 1, 0.25 * (u[i - 1, j] + u[i + 1, j] +
//           u[i, j - 1] + u[i, j + 1]), u[i, j])
// params    H = 130, W = 170
// u         input, float32 [130, 170], aligned to 8 bytes
// next      output, float32 [130, 170], aligned to 8 bytes
// launch    grid (3, 33, 1), block (32, 4, 1); family stencil
//
// Made by cugen 0.1.0 from jacobi2d.yaml (hash d670d56827bffe08) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 8 bytes: u, next.
cudaError_t jacobi2d_launch(const float* u, float* next, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "jacobi2d.hpp"
#endif
#endif
