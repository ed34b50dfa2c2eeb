// transpose_f64_kepler: B = Aᵀ of doubles on a Kepler GPU, whose banks of shared memory can be 8 bytes wide
//
// computes  B[n, m] = A[m, n]
// params    M = 300, N = 200
// A         input, float64 [300, 200], shared
// B         output, float64 [200, 300]
// launch    grid (10, 7, 1), block (32, 8, 1), 8448 bytes of shared memory; family transpose
//
// Made by cugen 0.1.0 from transpose_f64_kepler.yaml (hash dfe9107471ce439e) for sm_35. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
cudaError_t transpose_f64_kepler_launch(const double* A, double* B, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "transpose_f64_kepler.hpp"
#endif
#endif
