// gather: Rows of a table, picked by number, as an embedding layer does
//
// computes  rows[i, j] = table[ids[i], j]
// params    V = 1000, N = 300, D = 64
// table     input, float32 [1000, 64], aligned to 16 bytes
// ids       input, int32 [300]
// rows      output, float32 [300, 64], aligned to 16 bytes
// launch    grid (1, 19, 1), block (16, 16, 1); family map
// bounds    2 of 3 accesses proved, 1 unknown: table[ids_i * D + j], the subscript depends on the value ids_i,
//           which is read from memory
// analysis  sm_90: 3 accesses, 2 ideal, 1 unknown
//
// Made by cugen 0.1.0 from gather.yaml (hash b57a38e1bde92913) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   ids[i]           1 sector, ideal 1 (8 contiguous bytes)
//   rows[i * D + j]  16 sectors, ideal 16 (512 contiguous bytes)

constexpr int N = 300;
constexpr int D = 64;

#ifndef CUGEN_VECTOR
#define CUGEN_VECTOR
// `count` elements, moved by one vector access.
template <typename T, int count>
struct alignas(count * sizeof(T)) Vector {
    T data[count];
};
#endif

#ifndef CUGEN_LOAD
#define CUGEN_LOAD
// Vector load of `count` elements.
template <int count, typename T>
__device__ __forceinline__ Vector<T, count> load(const T* address)
{
    return *reinterpret_cast<const Vector<T, count>*>(address);
}
#endif

#ifndef CUGEN_STORE
#define CUGEN_STORE
// Vector store of `count` elements; of 4 bytes as one word, since nvcc may split the store of two 16-bit elements.
template <int count, typename T>
__device__ __forceinline__ void store(T* address, const Vector<T, count>& value)
{
    if constexpr (sizeof(value) == sizeof(unsigned)) {
        unsigned word;
        memcpy(&word, &value, sizeof(word));
        *reinterpret_cast<unsigned*>(address) = word;
    } else {
        *reinterpret_cast<Vector<T, count>*>(address) = value;
    }
}
#endif

extern "C" __global__ void __launch_bounds__(256) gather(
    const float* __restrict__ table,
    const int* __restrict__ ids,
    float* __restrict__ rows)
{
    const int i = blockIdx.y * 16 + threadIdx.y;
    const int j = blockIdx.x * 64 + threadIdx.x * 4;
    if (i >= N)
        return;

    const int ids_i = ids[i];
    // table[ids_i * D + j]: unknown: the subscript depends on the value ids_i, which is read from memory
    const auto table4 = load<4>(&table[ids_i * D + j]);
    store<4>(&rows[i * D + j], table4);
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t gather_launch(
    const float* table,
    const int* ids,
    float* rows,
    cudaStream_t stream)
{
    gather<<<dim3((D + 63) / 64, (N + 15) / 16), dim3(16, 16), 0, stream>>>(table, ids, rows);
    return cudaGetLastError();
}

#endif
