// table_gradient: The gradient of a table by the rows that were gathered from it; a block has the
// accumulators of some of the table's rows
//
// computes  d[v, e] = sum(cast(g[n, e], float32), n, where=id[n] == v)
// params    N = 4001, V = 2000, E = 128
// id        input, int32 [4001]
// g         input, bfloat16 [4001, 128], aligned to 8 bytes
// d         output, float32 [2000, 128], aligned to 16 bytes
// launch    grid (334, 1, 1), block (32, 16, 1), 49152 bytes of shared memory; family grouped
//
// Made by cugen 0.1.0 from table_gradient.yaml (hash 9e338c53309f8b83) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>
#include <cuda_bf16.h>

#ifdef __cplusplus
extern "C" {
#else
typedef __nv_bfloat16_raw __nv_bfloat16;
#endif

// Launches asynchronously on `stream`. All pointers are device pointers.
// Must be aligned to 8 bytes: g.
// Must be aligned to 16 bytes: d.
cudaError_t table_gradient_launch(const int* id, const __nv_bfloat16* g, float* d, cudaStream_t stream);

#ifdef __cplusplus
}

#ifndef CUGEN_C_ONLY
#include "table_gradient.hpp"
#endif
#endif
