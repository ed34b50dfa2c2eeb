// pitched_copy: A dense matrix copied to rows that begin at multiples of 128 bytes
//
// computes  pitched[i, j] = dense[i, j]
// params    M = 200, N = 250
// dense     input, float32 [200, 250], global by ld.global.cs, aligned to 8 bytes
// pitched   output, float32 [200, 250], strides (256, 1), global by st.global.cs, aligned to 8 bytes
// launch    grid (4, 25, 1), block (32, 8, 1); family map
// bounds    2 of 2 accesses proved
// analysis  sm_90: 2 accesses, 1 ideal, 1 costly
//           worst: dense[i * N + j], 9 sectors, ideal 8; 8.56 on average (misaligned by 8 bytes)
//
// Made by cugen 0.1.0 from pitched_copy.yaml (hash 78a62b81a68a0149) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   pitched[i * 256 + j]  8 sectors, ideal 8 (256 contiguous bytes)

constexpr int N = 250;

#ifndef CUGEN_VECTOR
#define CUGEN_VECTOR
// `count` elements, moved by one vector access.
template <typename T, int count>
struct alignas(count * sizeof(T)) Vector {
    T data[count];
};
#endif

#ifndef CUGEN_LOAD_CS
#define CUGEN_LOAD_CS
// Vector load of `count` elements by ld.global.cs.
template <int count, typename T>
__device__ __forceinline__ Vector<T, count> load_cs(const T* address)
{
    if constexpr (sizeof(Vector<T, count>) == 16) {
        const uint4 bits = __ldcs(reinterpret_cast<const uint4*>(address));
        return *reinterpret_cast<const Vector<T, count>*>(&bits);
    } else if constexpr (sizeof(Vector<T, count>) == 8) {
        const uint2 bits = __ldcs(reinterpret_cast<const uint2*>(address));
        return *reinterpret_cast<const Vector<T, count>*>(&bits);
    } else if constexpr (sizeof(Vector<T, count>) == 4) {
        const unsigned int bits = __ldcs(reinterpret_cast<const unsigned int*>(address));
        return *reinterpret_cast<const Vector<T, count>*>(&bits);
    } else if constexpr (sizeof(Vector<T, count>) == 1) {
        const unsigned char bits = __ldcs(reinterpret_cast<const unsigned char*>(address));
        return *reinterpret_cast<const Vector<T, count>*>(&bits);
    } else {
        static_assert(sizeof(Vector<T, count>) == 2);
        const unsigned short bits = __ldcs(reinterpret_cast<const unsigned short*>(address));
        return *reinterpret_cast<const Vector<T, count>*>(&bits);
    }
}
#endif

#ifndef CUGEN_STORE_CS
#define CUGEN_STORE_CS
// Vector store of `count` elements by st.global.cs.
template <int count, typename T>
__device__ __forceinline__ void store_cs(T* address, const Vector<T, count>& value)
{
    if constexpr (sizeof(Vector<T, count>) == 16) {
        __stcs(reinterpret_cast<uint4*>(address), *reinterpret_cast<const uint4*>(&value));
    } else if constexpr (sizeof(Vector<T, count>) == 8) {
        __stcs(reinterpret_cast<uint2*>(address), *reinterpret_cast<const uint2*>(&value));
    } else if constexpr (sizeof(Vector<T, count>) == 4) {
        __stcs(reinterpret_cast<unsigned int*>(address), *reinterpret_cast<const unsigned int*>(&value));
    } else if constexpr (sizeof(Vector<T, count>) == 2) {
        __stcs(reinterpret_cast<unsigned short*>(address), *reinterpret_cast<const unsigned short*>(&value));
    } else {
        static_assert(sizeof(Vector<T, count>) == 1);
        __stcs(reinterpret_cast<unsigned char*>(address), *reinterpret_cast<const unsigned char*>(&value));
    }
}
#endif

extern "C" __global__ void __launch_bounds__(256) pitched_copy(
    const float* __restrict__ dense,
    float* __restrict__ pitched)
{
    const int i = blockIdx.y * 8 + threadIdx.y;
    const int j = blockIdx.x * 64 + threadIdx.x * 2;
    if (j >= N)
        return;

    // dense[i * N + j]: 9 sectors, ideal 8; 8.56 on average (misaligned by 8 bytes)
    const auto dense2 = load_cs<2>(&dense[i * N + j]);
    store_cs<2>(&pitched[i * 256 + j], dense2);
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int M = 200;

extern "C" cudaError_t pitched_copy_launch(
    const float* dense,
    float* pitched,
    cudaStream_t stream)
{
    pitched_copy<<<dim3((N + 63) / 64, (M + 7) / 8), dim3(32, 8), 0, stream>>>(dense, pitched);
    return cudaGetLastError();
}

#endif
