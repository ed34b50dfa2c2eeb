// n_body: Accelerations of bodies in a plane by all others; each is a position and a mass, with a gap before the mass
//
// computes  a[i, 0] = sum(p[j, 3] * (p[j, 0] - p[i, 0]) * rsqrt((p[j, 0] - p[i, 0])**2 + (p[j, 1] - p[i, 1])**2 +
//           0.25)**3, j)
//           a[i, 1] = sum(p[j, 3] * (p[j, 1] - p[i, 1]) * rsqrt((p[j, 0] - p[i, 0])**2 + (p[j, 1] - p[i, 1])**2 +
//           0.25)**3, j)
// params    N = 1031
// p         input, float32 [1031, 4], aligned to 16 bytes
// a         output, float32 [1031, 2]
// launch    grid (129, 1, 1), block (8, 32, 1), 18432 bytes of shared memory; family staged
//
// Made by cugen 0.1.0 from n_body.yaml (hash de69da59cfb35586) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: p.
cudaError_t n_body_launch(const float* p, float* a, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "n_body.hpp"
#endif
#endif
