// gelu__float32: The activation x · Φ(x) on float32
//
// computes  y[i] = gelu(x[i])
// params    N = 20011
// x         input, float32 [20011], aligned to 16 bytes
// y         output, float32 [20011], aligned to 16 bytes
// launch    grid (20, 1, 1), block (256, 1, 1); family map
//
// Made by cugen 0.1.0 from gelu_variants.yaml (hash df89e23e8add69c9) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: x, y.
cudaError_t gelu__float32_launch(const float* x, float* y, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "gelu__float32.hpp"
#endif
#endif
