// pitched_copy: A dense matrix copied to rows that begin at multiples of 128 bytes
//
// computes  pitched[i, j] = dense[i, j]
// params    M = 200, N = 250
// dense     input, float32 [200, 250], global by ld.global.cs, aligned to 8 bytes
// pitched   output, float32 [200, 250], strides (256, 1), global by st.global.cs, aligned to 8 bytes
// launch    grid (4, 25, 1), block (32, 8, 1); family map
//
// Made by cugen 0.1.0 from pitched_copy.yaml (hash 78a62b81a68a0149) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 8 bytes: dense, pitched.
cudaError_t pitched_copy_launch(const float* dense, float* pitched, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "pitched_copy.hpp"
#endif
#endif
