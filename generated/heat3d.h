// heat3d: One explicit step of the heat equation in three dimensions; outside the body it is 0 degrees
//
// computes  around[x, y, z] = (u[x - 1, y, z] + u[x + 1, y, z] + u[x, y - 1, z] + u[x, y + 1, z] + u[x, y, z - 1]
//           + u[x, y, z + 1])
//           next[x, y, z] = u[x, y, z] + alpha * (around[x, y, z] - 6 * u[x, y, z])
// params    X = 40, Y = 36, Z = 50
// u         input, float32 [40, 36, 50], outside: zero, aligned to 8 bytes
// next      output, float32 [40, 36, 50], aligned to 8 bytes
// launch    grid (1, 9, 10), block (32, 4, 1); family stencil
//
// Made by cugen 0.1.0 from heat3d.yaml (hash a73dabdf51a984a6) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 8 bytes: u, next.
cudaError_t heat3d_launch(const float* u, float* next, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "heat3d.hpp"
#endif
#endif
