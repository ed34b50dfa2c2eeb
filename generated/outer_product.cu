// outer_product: C = a·bᵀ, every element of a times every element of b; all traffic is what is written
//
// computes  C[i, j] = a[i] * b[j]
// params    M = 500, N = 384
// a         input, float32 [500]
// b         input, float32 [384], aligned to 16 bytes
// C         output, float32 [500, 384], aligned to 16 bytes
// launch    grid (3, 63, 1), block (32, 8, 1); family map
// bounds    3 of 3 accesses proved
// analysis  sm_90: 3 accesses, 3 ideal
//
// Made by cugen 0.1.0 from outer_product.yaml (hash 0c40cd82ad777aad) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   b[j]          16 sectors, ideal 16 (512 contiguous bytes)
//   a[i]          1 sector, ideal 1 (uniform address)
//   C[i * N + j]  16 sectors, ideal 16 (512 contiguous bytes)

constexpr int M = 500;
constexpr int N = 384;

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

extern "C" __global__ void __launch_bounds__(256) outer_product(
    const float* __restrict__ a,
    const float* __restrict__ b,
    float* __restrict__ C)
{
    const int i = blockIdx.y * 8 + threadIdx.y;
    const int j = blockIdx.x * 128 + threadIdx.x * 4;
    if (i >= M)
        return;

    const auto b4 = load<4>(&b[j]);
    const float a_i = a[i];
    Vector<float, 4> c4;
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        c4.data[v] = a_i * b4.data[v];
    }
    store<4>(&C[i * N + j], c4);
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t outer_product_launch(
    const float* a,
    const float* b,
    float* C,
    cudaStream_t stream)
{
    outer_product<<<dim3((N + 127) / 128, (M + 7) / 8), dim3(32, 8), 0, stream>>>(a, b, C);
    return cudaGetLastError();
}

#endif
