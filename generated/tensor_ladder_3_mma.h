// tensor_ladder_3_mma: step 3: tensor cores by mma.sync, whose fragments ldmatrix loads: 2,048
// multiply-adds in an instruction of a warp
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 128, N = 256, K = 96
// A         input, bfloat16 [128, 96], aligned to 16 bytes
// B         input, bfloat16 [96, 256], aligned to 16 bytes
// C         output, bfloat16 [128, 256], aligned to 8 bytes
// launch    grid (4, 2, 1), block (128, 1, 1), 18432 bytes of dynamic shared memory; family gemm
//
// Made by cugen 0.1.0 from product_ladder_bf16.yaml (hash 3966fd2e1fe438d7) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>
#include <cuda_bf16.h>

#ifdef __cplusplus
extern "C" {
#else
typedef __nv_bfloat16_raw __nv_bfloat16;
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: A, B.
// Must be aligned to 8 bytes: C.
cudaError_t tensor_ladder_3_mma_launch(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C,
    cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "tensor_ladder_3_mma.hpp"
#endif
#endif
