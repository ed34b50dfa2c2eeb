// matmul_f16: C = A·B on half-precision matrices; sums run in float32 and are rounded once, on the store
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 80, K = 128, N = 96
// A         input, float16 [80, 128]
// B         input, float16 [128, 96]
// C         output, float16 [80, 96]
// launch    grid (2, 2, 1), block (16, 16, 1), 4096 bytes of shared memory; family tiled
//
// Made by cugen 0.1.0 from matmul_f16.yaml (hash af36a1d32e28b077) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>
#include <cuda_fp16.h>

#ifdef __cplusplus
extern "C" {
#else
typedef __half_raw __half;
#endif

// Launches on `stream` and returns without waiting. All pointers are to device memory.
cudaError_t matmul_f16_launch(
    const __half* A,
    const __half* B,
    __half* C,
    cudaStream_t stream);

#ifdef __cplusplus
}
#endif
