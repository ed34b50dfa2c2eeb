// gemm_slices: C = A·B where blocks are few; groups of warps share out the sum of each, and add theirs in a fixed order
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 96, K = 160, N = 128
// A         input, float32 [96, 160]
// B         input, float32 [160, 128], aligned to 16 bytes
// C         output, float32 [96, 128], aligned to 16 bytes
// launch    grid (2, 3, 1), block (256, 1, 1), 38400 bytes of dynamic shared memory; family gemm
//
// Made by cugen 0.1.0 from gemm_slices.yaml (hash a9b127e69217fdcd) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches on `stream` and returns without waiting. All pointers are to device memory.
// B must be aligned to 16 bytes.
// C must be aligned to 16 bytes.
cudaError_t gemm_slices_launch(
    const float* A,
    const float* B,
    float* C,
    cudaStream_t stream);

#ifdef __cplusplus
}
#endif
