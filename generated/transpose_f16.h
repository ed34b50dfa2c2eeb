// transpose_f16: B = Aᵀ of 16-bit floats, scaled row by row; a word of the tile holds two
// consecutive elements of the output
//
// computes  B[n, m] = A[m, n] * scale[m]
// params    M = 320, N = 264
// A         input, float16 [320, 264], aligned to 16 bytes
// scale     input, float32 [320], aligned to 16 bytes
// B         output, float16 [264, 320], aligned to 16 bytes
// launch    grid (5, 5, 1), block (8, 32, 1), 8832 bytes of shared memory; family transpose
//
// Made by cugen 0.1.0 from transpose_f16.yaml (hash ed38cea96f7b9d5e) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>
#include <cuda_fp16.h>

#ifdef __cplusplus
extern "C" {
#else
typedef __half_raw __half;
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: A, scale, B.
cudaError_t transpose_f16_launch(const __half* A, const float* scale, __half* B, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "transpose_f16.hpp"
#endif
#endif
