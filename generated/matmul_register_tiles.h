// matmul_register_tiles: C = A·B; each thread keeps 4 × 4 elements of C in registers and uses each number that it reads four times
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 150, K = 100, N = 130
// A         input, float32 [150, 100], shared
// B         input, float32 [100, 130], shared
// C         output, float32 [150, 130]
// launch    grid (5, 3, 1), block (8, 16, 1), 6400 bytes of shared memory; family tiled
//
// Made by cugen 0.1.0 from matmul_register_tiles.yaml (hash 73d45cc0da501ac2) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches on `stream` and returns without waiting. All pointers are to device memory.
cudaError_t matmul_register_tiles_launch(
    const float* A,
    const float* B,
    float* C,
    cudaStream_t stream);

#ifdef __cplusplus
}
#endif
