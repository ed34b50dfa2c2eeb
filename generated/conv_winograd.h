// conv_winograd: A convolution of 3 x 3 taps by Winograd's algorithm, which `accumulate` allows; 16
// multiply-adds for 4 outputs in place of 36
//
// computes                 y[n, k, i, j] = relu(sum(w[k, c, r, s] * x[n, c, i + r - 1, j + s - 1], c, r, s) +
//                          bias[k])
// params                   N = 3, C = 128, K = 192, H = 18, W = 20
// x                        input, float32 [3, 128, 18, 20], outside: zero, aligned to 16 bytes
// w                        input, float32 [192, 128, 3, 3]
// bias                     input, float32 [192]
// y                        output, float32 [3, 192, 18, 20], aligned to 16 bytes
// conv_winograd_y_filter   grid (3, 32, 1), block (64, 4, 1); family map
// conv_winograd_y_tile     grid (1, 1, 384), block (8, 16, 1); family stencil
// conv_winograd_y_product  grid (5, 3, 16), block (128, 1, 1), 34816 bytes of dynamic shared memory; family gemm
// conv_winograd_y          grid (1, 1, 192), block (5, 16, 3); family map
// accumulate               y by Winograd's F(2 x 2, 3 x 3), whose sums are rounded otherwise, as `winograd: true`
//                          allows
//
// Made by cugen 0.1.0 from conv_winograd.yaml (hash 94c716f2edf4b4ae) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Size of `workspace` in bytes.
size_t conv_winograd_workspace_bytes(void);

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: x, y.
// `workspace` may be null: the launch then allocates and frees one, stream-ordered.
cudaError_t conv_winograd_launch(const float* x, const float* w, const float* bias, float* y, void* workspace,
    cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "conv_winograd.hpp"
#endif
#endif
