// array_of_structures: The length of many vectors, stored one after the other as x y z x y z …;
// compare `structures_of_arrays`
//
// computes  length[i] = sqrt(point[i, 0] * point[i, 0] + point[i, 1] * point[i, 1] + point[i, 2] * point[i, 2])
// params    N = 60000
// point     input, float32 [60000, 3], aligned to 16 bytes
// length    output, float32 [60000], aligned to 16 bytes
// launch    grid (59, 1, 1), block (256, 1, 1); family map
//
// Made by cugen 0.1.0 from array_of_structures.yaml (hash 1b27b639b658c7ab) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: point, length.
cudaError_t array_of_structures_launch(const float* point, float* length, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "array_of_structures.hpp"
#endif
#endif
