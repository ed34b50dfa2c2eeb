// outer_product: C = a·bᵀ, every element of a times every element of b; all traffic is what is written
//
// computes  C[i, j] = a[i] * b[j]
// params    M = 500, N = 384
// a         input, float32 [500]
// b         input, float32 [384], aligned to 16 bytes
// C         output, float32 [500, 384], aligned to 16 bytes
// launch    grid (3, 63, 1), block (32, 8, 1); family map
//
// Made by cugen 0.1.0 from outer_product.yaml (hash 0c40cd82ad777aad) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: b, C.
cudaError_t outer_product_launch(const float* a, const float* b, float* C, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "outer_product.hpp"
#endif
#endif
