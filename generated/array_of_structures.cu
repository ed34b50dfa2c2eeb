// array_of_structures: The length of many vectors, stored one after the other as x y z x y z …;
// compare `structures_of_arrays`
//
// computes  length[i] = sqrt(point[i, 0] * point[i, 0] + point[i, 1] * point[i, 1] + point[i, 2] * point[i, 2])
// params    N = 60000
// point     input, float32 [60000, 3], aligned to 16 bytes
// length    output, float32 [60000], aligned to 16 bytes
// launch    grid (59, 1, 1), block (256, 1, 1); family map
// bounds    2 of 2 accesses proved
// analysis  sm_90: 2 accesses, 1 ideal, 1 costly
//           worst: point[3 * i + 4 * u], 32 sectors, ideal 16; 31.98 on average (lanes 48 bytes apart)
//
// Made by cugen 0.1.0 from array_of_structures.yaml (hash 1b27b639b658c7ab) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   length[i]  16 sectors, ideal 16 (512 contiguous bytes)

constexpr int N = 60000;

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

extern "C" __global__ void __launch_bounds__(256) array_of_structures(
    const float* __restrict__ point,
    float* __restrict__ length)
{
    const int i = blockIdx.x * 1024 + threadIdx.x * 4;
    if (i >= N)
        return;

    Vector<float, 4> point4[3];
    #pragma unroll
    for (int u = 0; u < 3; ++u) {
        // point[3 * i + 4 * u]: 32 sectors, ideal 16; 31.98 on average (lanes 48 bytes apart)
        point4[u] = load<4>(&point[3 * i + 4 * u]);
    }
    Vector<float, 4> length4;
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        const float point_i_0 = point4[3 * v / 4].data[3 * v % 4];
        const float point_i_1 = point4[(3 * v + 1) / 4].data[(3 * v + 1) % 4];
        const float point_i_2 = point4[(3 * v + 2) / 4].data[(3 * v + 2) % 4];
        length4.data[v] = sqrtf(point_i_0 * point_i_0 + point_i_1 * point_i_1 + point_i_2 * point_i_2);
    }
    store<4>(&length[i], length4);
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t array_of_structures_launch(
    const float* point,
    float* length,
    cudaStream_t stream)
{
    array_of_structures<<<dim3((N + 1023) / 1024), dim3(256), 0, stream>>>(point, length);
    return cudaGetLastError();
}

#endif
