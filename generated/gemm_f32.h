// gemm_f32: C = alpha·A·B + bias, the product of a dense layer; sizes are small here, and any others do
//
// computes  C[m, n] = alpha * sum(A[m, k] * B[k, n], k) + bias[n]
// params    M = 150, K = 100, N = 132
// A         input, float32 [150, 100], shared
// B         input, float32 [100, 132], shared, aligned to 16 bytes
// bias      input, float32 [132], aligned to 16 bytes
// C         output, float32 [150, 132], aligned to 16 bytes
// launch    grid (2, 3, 1), block (128, 1, 1), 25088 bytes of shared memory; family gemm
//
// Made by cugen 0.1.0 from gemm_f32.yaml (hash 8dbf3d2cbcb5028e) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches on `stream` and returns without waiting. All pointers are to device memory.
// B must be aligned to 16 bytes.
// bias must be aligned to 16 bytes.
// C must be aligned to 16 bytes.
cudaError_t gemm_f32_launch(
    const float* A,
    const float* B,
    const float* bias,
    float* C,
    float alpha,
    cudaStream_t stream);

#ifdef __cplusplus
}
#endif
