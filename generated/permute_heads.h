// permute_heads: Keys of an attention, transposed in each head; heads and channels stay adjacent,
// so it is one batch of transposes
//
// computes  Kt[b, h, d, t] = K[b, t, h, d]
// params    B = 2, T = 200, H = 3, D = 40
// K         input, float16 [2, 200, 3, 40], aligned to 16 bytes
// Kt        output, float16 [2, 3, 40, 200], aligned to 16 bytes
// launch    grid (4, 2, 2), block (8, 32, 1), 8832 bytes of shared memory; family transpose
//
// Made by cugen 0.1.0 from permute_heads.yaml (hash 4afff64791754510) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>
#include <cuda_fp16.h>

#ifdef __cplusplus
extern "C" {
#else
typedef __half_raw __half;
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: K, Kt.
cudaError_t permute_heads_launch(const __half* K, __half* Kt, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "permute_heads.hpp"
#endif
#endif
