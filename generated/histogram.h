// histogram: How many values fall into each of 200 bins
//
// computes               bin[i] = cast(x[i] * 100, int32) + 100
//                        count[b] = sum(bin[i] == b, i)
// params                 N = 1000003
// x                      input, float32 [1000003], aligned to 16 bytes
// count                  output, int32 [200], aligned to 16 bytes
// histogram_count_parts  grid (230, 1, 1), block (512, 1, 1), 1664 bytes of shared memory; family histogram
// histogram_count        grid (2, 1, 1), block (32, 16, 1), 8192 bytes of shared memory; family reduce
//
// Made by cugen 0.1.0 from histogram.yaml (hash d9668b392c51185a) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Size of `workspace` in bytes.
size_t histogram_workspace_bytes(void);

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: x, count.
// `workspace` may be null: the launch then allocates and frees one, stream-ordered.
cudaError_t histogram_launch(const float* x, int* count, void* workspace, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "histogram.hpp"
#endif
#endif
