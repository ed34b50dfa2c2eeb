// conv_reflect: A convolution with mirrored borders and channels last; an im2col launch lays
// out its windows as a matrix first
//
// computes                 y[n, i, j, k] = relu(sum(x[n, i + r - 1, j + s - 1, c] * w[r, s, c, k], r, s, c))
// params                   N = 1, H = 17, W = 16, C = 32, K = 32
// x                        input, float32 [1, 17, 16, 32], outside: reflect
// w                        input, float32 [3, 3, 32, 32], aligned to 16 bytes
// y                        output, float32 [1, 17, 16, 32], aligned to 16 bytes
// conv_reflect_x_unfolded  grid (1, 1, 544), block (32, 4, 2); family map
// conv_reflect_y           grid (1, 9, 1), block (256, 1, 1), 26112 bytes of dynamic shared memory; family gemm
//
// Made by cugen 0.1.0 from conv_reflect.yaml (hash 19eaf03a6eb3ea6c) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Size of `workspace` in bytes.
size_t conv_reflect_workspace_bytes(void);

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: w, y.
// `workspace` may be null: the launch then allocates and frees one, stream-ordered.
cudaError_t conv_reflect_launch(const float* x, const float* w, float* y, void* workspace, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "conv_reflect.hpp"
#endif
#endif
