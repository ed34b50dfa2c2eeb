// group_means: The mean of the values with each key; every thread adds to sums of its own, one for each key
//
// computes                 count[g] = sum(key[n] == g, n)
//                          mean[g] = sum(x[n], n, where=key[n] == g) / cast(maximum(count[g], 1), float32)
// params                   N = 200003, G = 40
// key                      input, uint8 [200003]
// x                        input, float32 [200003]
// mean                     output, float32 [40]
// group_means_count_parts  grid (2, 385, 1), block (32, 8, 1); family direct
// group_means_count        grid (2, 1, 1), block (8, 128, 1), 16384 bytes of shared memory; family reduce
// group_means_mean_parts   grid (2, 1, 23), block (512, 1, 1), 40960 bytes of shared memory; family grouped
// group_means_mean         grid (1, 1, 1), block (64, 2, 1), 512 bytes of shared memory; family rowwise
//
// Made by cugen 0.1.0 from group_means.yaml (hash 533bb1ed07e94cf3) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Size of `workspace` in bytes.
size_t group_means_workspace_bytes(void);

// Launches asynchronously on `stream`. All pointers are device pointers.
// `workspace` may be null: the launch then allocates and frees one, stream-ordered.
cudaError_t group_means_launch(const unsigned char* key, const float* x, float* mean, void* workspace,
    cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "group_means.hpp"
#endif
#endif
