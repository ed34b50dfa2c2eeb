// conv_strided_dilated: A convolution over channels with stride, dilation and zero padding, as in neural networks
//
// computes  y[o, p, q] = sum(w[o, c, r, s] * x[c, stride * p + dilation * r - pad, stride * q + dilation * s -
//           pad], c, r, s)
// params    C = 4, O = 6, H = 30, W = 37, R = 3, stride = 2, dilation = 2, pad = 2, P = 15, Q = 19
// x         input, float32 [4, 30, 37], outside: zero
// w         input, float32 [6, 4, 3, 3]
// y         output, float32 [6, 15, 19]
// launch    grid (1, 2, 6), block (32, 8, 1); family direct
//
// Made by cugen 0.1.0 from conv_strided_dilated.yaml (hash 62833fa70f9a732c) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
cudaError_t conv_strided_dilated_launch(const float* x, const float* w, float* y, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "conv_strided_dilated.hpp"
#endif
#endif
