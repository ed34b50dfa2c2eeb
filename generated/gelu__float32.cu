// gelu__float32: The activation x · Φ(x) on float32
//
// computes  y[i] = gelu(x[i])
// params    N = 20011
// x         input, float32 [20011], aligned to 16 bytes
// y         output, float32 [20011], aligned to 16 bytes
// launch    grid (20, 1, 1), block (256, 1, 1); family map
// bounds    4 of 4 accesses proved
// analysis  sm_90: 4 accesses, 4 ideal
//
// Made by cugen 0.1.0 from gelu_variants.yaml (hash df89e23e8add69c9) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   x[i]     16 sectors, ideal 16 (512 contiguous bytes)
//   y[i]     16 sectors, ideal 16 (512 contiguous bytes)
//   x[tail]  1 sector, ideal 1 (uniform address)
//   y[tail]  1 sector, ideal 1 (uniform address)

constexpr int N = 20011;

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

extern "C" __global__ void __launch_bounds__(256) gelu__float32(
    const float* __restrict__ x,
    float* __restrict__ y)
{
    const int i = blockIdx.x * 1024 + threadIdx.x * 4;

    if (i + 3 < N) {
        const auto x4 = load<4>(&x[i]);
        Vector<float, 4> y4;
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            const float x_value = x4.data[v];
            y4.data[v] = 0.5f * x_value * (1.0f + erff(0.70710678f * x_value));
        }
        store<4>(&y[i], y4);
    } else {
        #pragma unroll 1
        for (int tail = i; tail < N; ++tail) {
            const float x_i = x[tail];
            y[tail] = 0.5f * x_i * (1.0f + erff(0.70710678f * x_i));
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t gelu__float32_launch(
    const float* x,
    float* y,
    cudaStream_t stream)
{
    gelu__float32<<<dim3((N + 1023) / 1024), dim3(256), 0, stream>>>(x, y);
    return cudaGetLastError();
}

#endif
