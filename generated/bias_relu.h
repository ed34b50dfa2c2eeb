// bias_relu: A bias for each column, an activation, a gate for each row; one pass over the matrix,
// the operands stay in registers
//
// computes  shifted[m, n] = x[m, n] + bias[n]
//           y[m, n] = relu(shifted[m, n]) * gate[m]
// params    M = 300, N = 520
// x         input, bfloat16 [300, 520], aligned to 16 bytes
// bias      input, float32 [520], aligned to 16 bytes
// gate      input, float32 [300]
// y         output, bfloat16 [300, 520], aligned to 16 bytes
// launch    grid (3, 38, 1), block (32, 8, 1); family map
//
// Made by cugen 0.1.0 from bias_relu.yaml (hash 68608e48dec82c6a) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>
#include <cuda_bf16.h>

#ifdef __cplusplus
extern "C" {
#else
typedef __nv_bfloat16_raw __nv_bfloat16;
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: x, bias, y.
cudaError_t bias_relu_launch(const __nv_bfloat16* x, const float* bias, const float* gate, __nv_bfloat16* y,
    cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "bias_relu.hpp"
#endif
#endif
