// prefix_sum: The running sum of one long vector
//
// computes          y[i] = cumsum(x[i], i)
// params            N = 200003
// x                 input, float32 [200003], aligned to 16 bytes
// y                 output, float32 [200003], aligned to 16 bytes
// prefix_sum_y_sum  grid (98, 1, 1), block (512, 1, 1), 64 bytes of shared memory; family reduce
// prefix_sum_y      grid (98, 1, 1), block (128, 1, 1), 16 bytes of shared memory; family scan
//
// Made by cugen 0.1.0 from prefix_sum.yaml (hash c389108206c1fd0c) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Bytes that `workspace` must hold.
size_t prefix_sum_workspace_bytes(void);

// Launches on `stream` and returns without waiting. All pointers are to device memory.
// x must be aligned to 16 bytes.
// y must be aligned to 16 bytes.
// `workspace` may be null: the launch then allocates and frees its own, in the stream's order.
cudaError_t prefix_sum_launch(
    const float* x,
    float* y,
    void* workspace,
    cudaStream_t stream);

#ifdef __cplusplus
}
#endif
