// saxpy: y = a·x + y
//
// computes  y[i] += a * x[i]
// params    N = 100000
// x         input, float32 [100000], aligned to 16 bytes
// y         inout, float32 [100000], aligned to 16 bytes
// launch    grid (98, 1, 1), block (256, 1, 1); family map
//
// Made by cugen 0.1.0 from saxpy.yaml (hash ff79090ca7129df4) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: x, y.
// Constants (a_value) belong to the device: calls of several streams or threads run one after another.
// A CUDA graph of such calls must not run beside others, or beside calls.
cudaError_t saxpy_launch(const float* x, float* y, float a_value, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "saxpy.hpp"
#endif
#endif
