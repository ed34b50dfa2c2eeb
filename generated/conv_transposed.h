// conv_transposed: A transposed convolution with stride 2, which doubles an image
//
// computes  y[o, p, q] = sum(w[c, o, r, s] * x[c, (p + pad - r) // stride, (q + pad - s) // stride], c, r, s,
//           where=(p + pad - r) % stride == 0 and (q + pad - s) % stride == 0)
// params    C = 4, O = 5, H = 17, W = 20, R = 4, stride = 2, pad = 1, P = 34, Q = 40
// x         input, float32 [4, 17, 20], outside: zero, aligned to 8 bytes
// w         input, float32 [4, 5, 4, 4]
// y         output, float32 [5, 34, 40], aligned to 16 bytes
// launch    grid (1, 3, 5), block (16, 8, 1); family stencil
//
// Made by cugen 0.1.0 from conv_transposed.yaml (hash cc72c12fbd4fa39c) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 8 bytes: x.
// Must be aligned to 16 bytes: y.
cudaError_t conv_transposed_launch(const float* x, const float* w, float* y, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "conv_transposed.hpp"
#endif
#endif
