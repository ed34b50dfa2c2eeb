// prefix_sum: The running sum of one long vector
//
// computes  y[i] = cumsum(x[i], i)
// params    N = 200003
// x         input, float32 [200003], aligned to 16 bytes
// y         output, float32 [200003], aligned to 16 bytes
// launch    grid (196, 1, 1), block (256, 1, 1), 80 bytes of shared memory; family scan
//
// Made by cugen 0.1.0 from prefix_sum.yaml (hash ee7a70f666d5182d) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Size of `workspace` in bytes.
size_t prefix_sum_workspace_bytes(void);

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: x, y.
// `workspace` may be null: the launch then allocates and frees one, stream-ordered.
cudaError_t prefix_sum_launch(const float* x, float* y, void* workspace, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "prefix_sum.hpp"
#endif
#endif
