// full_sum: The sum of all elements
//
// computes              total = sum(x[i], i)
// params                N = 100003
// x                     input, float32 [100003], aligned to 16 bytes
// total                 output, float32 []
// full_sum_total_parts  grid (23, 1, 1), block (1024, 1, 1), 256 bytes of shared memory; family reduce
// full_sum_total        grid (1, 1, 1), block (4, 1, 1); family reduce
//
// Made by cugen 0.1.0 from full_sum.yaml (hash 64b8169916d00d7e) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Size of `workspace` in bytes.
size_t full_sum_workspace_bytes(void);

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 16 bytes: x.
// `workspace` may be null: the launch then allocates and frees one, stream-ordered.
cudaError_t full_sum_launch(const float* x, float* total, void* workspace, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "full_sum.hpp"
#endif
#endif
