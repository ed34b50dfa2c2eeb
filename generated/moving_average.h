// moving_average: The mean of the 63 samples round each one, of a signal that is mirrored at its ends
//
// computes  smooth[i] = mean(samples[i + r - 31], r)
// params    N = 10007
// samples   input, float32 [10007], shared, outside: reflect
// smooth    output, float32 [10007]
// launch    grid (20, 1, 1), block (256, 1, 1), 2296 bytes of shared memory; family staged
//
// Made by cugen 0.1.0 from moving_average.yaml (hash e8033bd9a2101772) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
cudaError_t moving_average_launch(const float* samples, float* smooth, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "moving_average.hpp"
#endif
#endif
