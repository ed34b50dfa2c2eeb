// gelu__float16: The activation x · Φ(x) on float16
//
// computes  y[i] = gelu(x[i])
// params    N = 20011
// x         input, float16 [20011], aligned to 16 bytes
// y         output, float16 [20011], aligned to 16 bytes
// launch    grid (10, 1, 1), block (256, 1, 1); family map
//
// Made by cugen 0.1.0 from gelu_variants.yaml (hash 68f5c27cee29232c) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>
#include <cuda_fp16.h>

#ifdef __cplusplus
extern "C" {
#else
typedef __half_raw __half;
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: x, y.
cudaError_t gelu__float16_launch(const __half* x, __half* y, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "gelu__float16.hpp"
#endif
#endif
