// suffix_sums: The sum of all positive elements to the right of each, in rows of any length
//
// computes  y[i, j] = cumsum(x[i, j], j, reverse=true, exclusive=true, where=x[i, j] > 0)
// params    M (dynamic), N (dynamic, 0 to 1048576, multiples of 8)
// x         input, float16 [M, N], aligned to 8 bytes
// y         output, float32 [M, N], aligned to 16 bytes
// launch    grid (M, 1, 1), block (128, 1, 1), 32 bytes of shared memory; family scan
//
// Made by cugen 0.1.0 from suffix_sums.yaml (hash 530f808454868eaf) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>
#include <cuda_fp16.h>

#ifdef __cplusplus
extern "C" {
#else
typedef __half_raw __half;
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 8 bytes: x.
// Must be aligned to 16 bytes: y.
cudaError_t suffix_sums_launch(const __half* x, float* y, int M, int N, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "suffix_sums.hpp"
#endif
#endif
