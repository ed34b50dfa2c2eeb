// gather: Rows of a table, picked by number, as an embedding layer does
//
// computes  rows[i, j] = table[ids[i], j]
// params    V = 1000, N = 300, D = 64
// table     input, float32 [1000, 64]
// ids       input, int32 [300]
// rows      output, float32 [300, 64]
// launch    grid (2, 38, 1), block (32, 8, 1); family direct
//
// Made by cugen 0.1.0 from gather.yaml (hash b57a38e1bde92913) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches on `stream` and returns without waiting. All pointers are to device memory.
cudaError_t gather_launch(
    const float* table,
    const int* ids,
    float* rows,
    cudaStream_t stream);

#ifdef __cplusplus
}
#endif
