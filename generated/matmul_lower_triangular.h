// matmul_lower_triangular: C = L·B where only the lower triangle of L counts; what lies above it is never read
//
// computes  C[m, n] = sum(L[m, k] * B[k, n], k, where=k <= m)
// params    M = 120, N = 75
// L         input, float32 [120, 120]
// B         input, float32 [120, 75]
// C         output, float32 [120, 75]
// launch    grid (3, 15, 1), block (32, 8, 1); family direct
//
// Made by cugen 0.1.0 from matmul_lower_triangular.yaml (hash b4dcaf8f6cdfe25a) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches on `stream` and returns without waiting. All pointers are to device memory.
cudaError_t matmul_lower_triangular_launch(
    const float* L,
    const float* B,
    float* C,
    cudaStream_t stream);

#ifdef __cplusplus
}
#endif
