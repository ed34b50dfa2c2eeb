// conv_input_gradient: The gradient of a convolution by its input, channels first; a launch makes the contracted
// indices of the weights adjacent
//
// computes                    dx[n, c, i, j] = sum(dy[n, k, i - r + 1, j - s + 1] * w[k, c, r, s], k, r, s)
// params                      N = 4, C = 24, K = 32, H = 12, W = 10
// dy                          input, float32 [4, 32, 12, 10], outside: zero
// w                           input, float32 [32, 24, 3, 3]
// dx                          output, float32 [4, 24, 12, 10], aligned to 16 bytes
// conv_input_gradient_w_last  grid (1, 2, 24), block (9, 28, 1); family map
// conv_input_gradient_dx      grid (16, 1, 4), block (256, 1, 1), clusters of 4, 26112 bytes of dynamic shared
//                             memory; family gemm
//
// Made by cugen 0.1.0 from conv_input_gradient.yaml (hash bcb1f05ad2ec2cbe) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Size of `workspace` in bytes.
size_t conv_input_gradient_workspace_bytes(void);

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: dx.
// `workspace` may be null: the launch then allocates and frees one, stream-ordered.
cudaError_t conv_input_gradient_launch(const float* dy, const float* w, float* dx, void* workspace,
    cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "conv_input_gradient.hpp"
#endif
#endif
