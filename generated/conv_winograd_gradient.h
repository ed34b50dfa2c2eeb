// conv_winograd_gradient: The gradient of a convolution by its input, channels last, by Winograd's algorithm; odd
// extents, whose last tiles are guarded
//
// computes                           dx[n, i, j, c] = sum(dy[n, i - r + 1, j - s + 1, k] * w[r, s, c, k], k, r, s)
// params                             N = 6, C = 128, K = 128, H = 19, W = 19
// dy                                 input, float32 [6, 19, 19, 128], outside: zero, aligned to 16 bytes
// w                                  input, float32 [3, 3, 128, 128], aligned to 16 bytes
// dx                                 output, float32 [6, 19, 19, 128]
// conv_winograd_gradient_dx_filter   grid (4, 4, 1), block (8, 32, 1), 38016 bytes of shared memory; family
//                                    transpose
// conv_winograd_gradient_dx_tile     grid (1, 3, 60), block (32, 4, 1); family stencil
// conv_winograd_gradient_dx_product  grid (2, 19, 16), block (128, 1, 1), 38400 bytes of dynamic shared memory;
//                                    family gemm
// conv_winograd_gradient_dx          grid (1, 5, 60), block (128, 2, 1); family map
// accumulate                         dx by Winograd's F(2 x 2, 3 x 3), whose sums are rounded otherwise, as
//                                    `winograd: true` allows
//
// Made by cugen 0.1.0 from conv_winograd_gradient.yaml (hash e1e4ced930bcc8c4) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Size of `workspace` in bytes.
size_t conv_winograd_gradient_workspace_bytes(void);

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: dy, w.
// `workspace` may be null: the launch then allocates and frees one, stream-ordered.
cudaError_t conv_winograd_gradient_launch(const float* dy, const float* w, float* dx, void* workspace,
    cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "conv_winograd_gradient.hpp"
#endif
#endif
