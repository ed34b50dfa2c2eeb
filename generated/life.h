// life: A step of Conway's game of life on a torus; a cell lives where its lowest bit is set
//
// computes  n[i, j] = sum(before[i + r - 1, j + s - 1] & 1, r, s) - (before[i, j] & 1)
//           after[i, j] = where(n[i, j] == 3 or (n[i, j] == 2 and before[i, j] & 1), 1, 0)
// params    H = 61, W = 100
// before    input, uint8 [61, 100], outside: wrap, aligned to 4 bytes
// after     output, uint8 [61, 100], aligned to 4 bytes
// launch    grid (1, 16, 1), block (32, 4, 1); family stencil
//
// Made by cugen 0.1.0 from life.yaml (hash 28da8769c6753fe2) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 4 bytes: before, after.
cudaError_t life_launch(const unsigned char* before, unsigned char* after, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "life.hpp"
#endif
#endif
