// blur_separable: The filter of `blur5x5` as a pass over rows and one over columns; 10
// taps for each pixel in place of 25
//
// computes                rows[y, x] = sum(taps[s] * image[y, x + s - 2], s)
//                         blurred[y, x] = sum(taps[r] * rows[y + r - 2, x], r)
// params                  H = 150, W = 201
// image                   input, float32 [150, 201], outside: clamp
// taps                    baked, float32 [5], constant, since all reads are uniform
// rows                    temporary, float32 [150, 201], scratch, outside: clamp
// blurred                 output, float32 [150, 201]
// blur_separable_rows     grid (7, 19, 1), block (32, 8, 1), 1152 bytes of shared memory; family staged
// blur_separable_blurred  grid (7, 38, 1), block (32, 4, 1); family stencil
//
// Made by cugen 0.1.0 from blur_separable.yaml (hash c1bedccbd0e827f5) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Size of `workspace` in bytes.
size_t blur_separable_workspace_bytes(void);

// Launches asynchronously on `stream`. All pointers are device pointers.
// `workspace` may be null: the launch then allocates and frees one, stream-ordered.
cudaError_t blur_separable_launch(const float* image, float* blurred, void* workspace, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "blur_separable.hpp"
#endif
#endif
