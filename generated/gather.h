// gather: Rows of a table, picked by number, as an embedding layer does
//
// computes  rows[i, j] = table[ids[i], j]
// params    V = 1000, N = 300, D = 64
// table     input, float32 [1000, 64], aligned to 16 bytes
// ids       input, int32 [300]
// rows      output, float32 [300, 64], aligned to 16 bytes
// launch    grid (1, 19, 1), block (16, 16, 1); family map
//
// Made by cugen 0.1.0 from gather.yaml (hash b57a38e1bde92913) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: table, rows.
cudaError_t gather_launch(const float* table, const int* ids, float* rows, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "gather.hpp"
#endif
#endif
