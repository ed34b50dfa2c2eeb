// gelu__bfloat16: The activation x · Φ(x) on bfloat16
//
// computes  y[i] = gelu(x[i])
// params    N = 20011
// x         input, bfloat16 [20011], aligned to 16 bytes
// y         output, bfloat16 [20011], aligned to 16 bytes
// launch    grid (10, 1, 1), block (256, 1, 1); family map
//
// Made by cugen 0.1.0 from gelu_variants.yaml (hash ecb50dc074892018) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>
#include <cuda_bf16.h>

#ifdef __cplusplus
extern "C" {
#else
typedef __nv_bfloat16_raw __nv_bfloat16;
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: x, y.
cudaError_t gelu__bfloat16_launch(const __nv_bfloat16* x, __nv_bfloat16* y, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "gelu__bfloat16.hpp"
#endif
#endif
