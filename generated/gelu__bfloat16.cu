// gelu__bfloat16: The activation x · Φ(x) on bfloat16
//
// computes  y[i] = gelu(x[i])
// params    N = 20011
// x         input, bfloat16 [20011], aligned to 16 bytes
// y         output, bfloat16 [20011], aligned to 16 bytes
// launch    grid (10, 1, 1), block (256, 1, 1); family map
// bounds    4 of 4 accesses proved
// analysis  sm_90: 4 accesses, 4 ideal
//
// Made by cugen 0.1.0 from gelu_variants.yaml (hash ecb50dc074892018) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   x[i]     16 sectors, ideal 16 (512 contiguous bytes)
//   y[i]     16 sectors, ideal 16 (512 contiguous bytes)
//   x[tail]  1 sector, ideal 1 (uniform address)
//   y[tail]  1 sector, ideal 1 (uniform address)

#include <cuda_bf16.h>

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

extern "C" __global__ void __launch_bounds__(256) gelu__bfloat16(
    const __nv_bfloat16* __restrict__ x,
    __nv_bfloat16* __restrict__ y)
{
    const int i = blockIdx.x * 2048 + threadIdx.x * 8;

    if (i + 7 < N) {
        const auto x8 = load<8>(&x[i]);
        Vector<__nv_bfloat16, 8> y8;
        #pragma unroll
        for (int v = 0; v < 8; ++v) {
            const float x_value = __bfloat162float(x8.data[v]);
            y8.data[v] = __float2bfloat16_rn(0.5f * x_value * (1.0f + erff(0.70710678f * x_value)));
        }
        store<8>(&y[i], y8);
    } else {
        #pragma unroll 1
        for (int tail = i; tail < N; ++tail) {
            const float x_i = __bfloat162float(x[tail]);
            y[tail] = __float2bfloat16_rn(0.5f * x_i * (1.0f + erff(0.70710678f * x_i)));
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t gelu__bfloat16_launch(
    const __nv_bfloat16* x,
    __nv_bfloat16* y,
    cudaStream_t stream)
{
    gelu__bfloat16<<<dim3((N + 2047) / 2048), dim3(256), 0, stream>>>(x, y);
    return cudaGetLastError();
}

#endif
