// gather: Rows of a table, picked by number, as an embedding layer does
//
// computes  rows[i, j] = table[ids[i], j]
// params    V = 1000, N = 300, D = 64
// table     input, float32 [1000, 64]
// ids       input, int32 [300]
// rows      output, float32 [300, 64]
// launch    grid (2, 38, 1), block (32, 8, 1); family direct
// analysis  sm_90: 3 accesses, 2 ideal, 1 unknown
//
// Made by cugen 0.1.0 from gather.yaml (hash b57a38e1bde92913) for sm_90. Edit the spec, not this file.

constexpr int N = 300;
constexpr int D = 64;

extern "C" __global__ void __launch_bounds__(256) gather(
    const float* __restrict__ table,
    const int* __restrict__ ids,
    float* __restrict__ rows)
{
    const int i = blockIdx.y * 8 + threadIdx.y;
    const int j = blockIdx.x * 32 + threadIdx.x;
    if (i >= N)
        return;

    // ids[i]: 1 sector, ideal 1 (one address for all lanes)
    const int ids_i = ids[i];
    // table[ids_i * D + j]: unknown: the subscript depends on the value ids_i, which is read from memory
    const float table_value = table[ids_i * D + j];
    // rows[i * D + j]: 4 sectors, ideal 4 (128 bytes side by side)
    rows[i * D + j] = table_value;
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t gather_launch(
    const float* table,
    const int* ids,
    float* rows,
    cudaStream_t stream)
{
    gather<<<dim3((D + 31) / 32, (N + 7) / 8), dim3(32, 8), 0, stream>>>(table, ids, rows);
    return cudaGetLastError();
}

#endif
