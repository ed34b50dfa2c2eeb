// structures_of_arrays: The length of many vectors, their components in three arrays; compare `array_of_structures`
//
// computes  length[i] = sqrt(x[i] * x[i] + y[i] * y[i] + z[i] * z[i])
// params    N = 60000
// x         input, float32 [60000], aligned to 16 bytes
// y         input, float32 [60000], aligned to 16 bytes
// z         input, float32 [60000], aligned to 16 bytes
// length    output, float32 [60000], aligned to 16 bytes
// launch    grid (59, 1, 1), block (256, 1, 1); family map
//
// Made by cugen 0.1.0 from structures_of_arrays.yaml (hash f83a26f9968c244f) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: x, y, z, length.
cudaError_t structures_of_arrays_launch(const float* x, const float* y, const float* z, float* length,
    cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "structures_of_arrays.hpp"
#endif
#endif
