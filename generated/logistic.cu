// logistic: A logistic curve and its slope, by the fast functions of the special function units
//
// computes  decay[i] = exp(-abs(steepness * x[i]))
//           curve[i] = where(x[i] >= 0, 1, decay[i]) / (1 + decay[i])
//           slope[i] = steepness * decay[i] / (1 + decay[i])**2
// params    N = 30001
// x         input, float32 [30001], aligned to 16 bytes
// curve     output, float32 [30001], aligned to 16 bytes
// slope     output, float32 [30001], aligned to 16 bytes
// launch    grid (30, 1, 1), block (256, 1, 1); family map
// analysis  sm_90: 6 accesses, 6 ideal
//
// Made by cugen 0.1.0 from logistic.yaml (hash 135f90719356457e) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   x[i]         16 sectors, ideal 16 (512 contiguous bytes)
//   curve[i]     16 sectors, ideal 16 (512 contiguous bytes)
//   slope[i]     16 sectors, ideal 16 (512 contiguous bytes)
//   x[tail]      1 sector, ideal 1 (uniform address)
//   curve[tail]  1 sector, ideal 1 (uniform address)
//   slope[tail]  1 sector, ideal 1 (uniform address)

constexpr int N = 30001;

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
// Vector store of `count` elements.
template <int count, typename T>
__device__ __forceinline__ void store(T* address, const Vector<T, count>& value)
{
    *reinterpret_cast<Vector<T, count>*>(address) = value;
}
#endif

extern "C" __global__ void __maxnreg__(24) logistic(
    const float* __restrict__ x,
    float* __restrict__ curve,
    float* __restrict__ slope,
    float steepness)
{
    const int i = blockIdx.x * 1024 + threadIdx.x * 4;

    if (i + 3 < N) {
        const auto x4 = load<4>(&x[i]);
        Vector<float, 4> curve4;
        Vector<float, 4> slope4;
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            const float x_value = x4.data[v];
            const float decay = __expf(-fabsf(steepness * x_value));
            const float total = 1.0f + decay;
            curve4.data[v] = __fdividef(x_value >= 0.0f ? 1.0f : decay, total);
            slope4.data[v] = __fdividef(steepness * decay, total * total);
        }
        store<4>(&curve[i], curve4);
        store<4>(&slope[i], slope4);
    } else {
        #pragma unroll 1
        for (int tail = i; tail < N; ++tail) {
            const float x_i = x[tail];
            const float decay = __expf(-fabsf(steepness * x_i));
            const float total = 1.0f + decay;
            curve[tail] = __fdividef(x_i >= 0.0f ? 1.0f : decay, total);
            slope[tail] = __fdividef(steepness * decay, total * total);
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t logistic_launch(
    const float* x,
    float* curve,
    float* slope,
    float steepness,
    cudaStream_t stream)
{
    logistic<<<dim3((N + 1023) / 1024), dim3(256), 0, stream>>>(x, curve, slope, steepness);
    return cudaGetLastError();
}

#endif
