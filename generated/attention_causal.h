// attention_causal: Attention of every head, in which a place looks at none after it
//
// computes                 score[b, h, i, j] = where(j <= i, scale * sum(q[b, h, i, d] * k[b, h, j, d], d), -inf)
//                          weight[b, h, i, j] = softmax(score[b, h, i, j], j)
//                          o[b, h, i, d] = sum(weight[b, h, i, j] * v[b, h, j, d], j)
// params                   B = 2, H = 3, T = 45, D = 24
// q                        input, float32 [2, 3, 45, 24]
// k                        input, float32 [2, 3, 45, 24], shared
// v                        input, float32 [2, 3, 45, 24]
// o                        output, float32 [2, 3, 45, 24]
// attention_causal_score   grid (3, 3, 6), block (16, 16, 1), 2048 bytes of shared memory; family tiled
// attention_causal_weight  grid (17, 1, 1), block (8, 16, 1); family rowwise
// attention_causal_o       grid (2, 3, 6), block (16, 16, 1), 2048 bytes of shared memory; family tiled
//
// Made by cugen 0.1.0 from attention_causal.yaml (hash 77c3ab256dbd225d) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Size of `workspace` in bytes.
size_t attention_causal_workspace_bytes(void);

// Launches asynchronously on `stream`. All pointers are device pointers.
// `workspace` may be null: the launch then allocates and frees one, stream-ordered.
cudaError_t attention_causal_launch(const float* q, const float* k, const float* v, float* o, void* workspace,
    cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "attention_causal.hpp"
#endif
#endif
