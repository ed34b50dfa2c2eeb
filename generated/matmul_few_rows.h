// matmul_few_rows: Skinny GEMM with K-major weights, as in LLM decoding; each weight is read once for all rows
//
// computes                 y[m, n] = relu(sum(x[m, k] * w[n, k], k) + bias[n])
// params                   M = 4, K = 1024, N = 300
// x                        input, float16 [4, 1024], aligned to 16 bytes
// w                        input, float16 [300, 1024], aligned to 16 bytes
// bias                     input, float16 [300]
// y                        output, float16 [4, 300], aligned to 8 bytes
// matmul_few_rows_y_parts  grid (10, 2, 1), block (32, 8, 1); family skinny
// matmul_few_rows_y        grid (1, 4, 1), block (128, 1, 1); family reduce
//
// Made by cugen 0.1.0 from matmul_few_rows.yaml (hash 7f85a821d01a09c0) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>
#include <cuda_fp16.h>

#ifdef __cplusplus
extern "C" {
#else
typedef __half_raw __half;
#endif

// Size of `workspace` in bytes.
size_t matmul_few_rows_workspace_bytes(void);

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: x, w.
// Must be aligned to 8 bytes: y.
// `workspace` may be null: the launch then allocates and frees one, stream-ordered.
cudaError_t matmul_few_rows_launch(const __half* x, const __half* w, const __half* bias, __half* y, void* workspace,
    cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "matmul_few_rows.hpp"
#endif
#endif
