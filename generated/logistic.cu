// logistic: The slope of a logistic curve, by the fast functions of the special function units
//
// computes  decay[i] = exp(-abs(steepness * x[i]))
//           slope[i] = steepness * decay[i] / (1 + decay[i])**2
// params    N = 30001
// x         input, float16 [30001], aligned to 16 bytes
// slope     output, float16 [30001], aligned to 16 bytes
// launch    grid (4, 1, 1), block (256, 1, 1); family map
// bounds    6 of 6 accesses proved
// analysis  sm_90: 6 accesses, 6 ideal
//
// Made by cugen 0.1.0 from logistic.yaml (hash 9d0f7346e6409fdb) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   x[i]         16 sectors, ideal 16 (512 contiguous bytes), at 2 places
//   slope[i]     16 sectors, ideal 16 (512 contiguous bytes), at 2 places
//   x[tail]      1 sector, ideal 1 (uniform address)
//   slope[tail]  1 sector, ideal 1 (uniform address)

#include <cuda_fp16.h>

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

extern "C" __global__ void __maxnreg__(24) logistic(
    const __half* __restrict__ x,
    __half* __restrict__ slope,
    float steepness)
{
    const int first = blockIdx.x * 8192 + threadIdx.x * 8;

    // all elements of the thread are inside
    if (first + 6151 < N) {
        #pragma unroll
        for (int i = first; i < first + 8192; i += 2048) {
            const auto x8 = load<8>(&x[i]);
            Vector<__half, 8> slope8;
            #pragma unroll
            for (int v = 0; v < 8; ++v) {
                const float decay = __expf(-fabsf(steepness * __half2float(x8.data[v])));
                const float total = 1.0f + decay;
                slope8.data[v] = __float2half_rn(__fdividef(steepness * decay, total * total));
            }
            store<8>(&slope[i], slope8);
        }
    } else {
        #pragma unroll 1
        for (int i = first; i < N; i += 2048) {
            if (i + 7 < N) {
                const auto x8 = load<8>(&x[i]);
                Vector<__half, 8> slope8;
                #pragma unroll
                for (int v = 0; v < 8; ++v) {
                    const float decay = __expf(-fabsf(steepness * __half2float(x8.data[v])));
                    const float total = 1.0f + decay;
                    slope8.data[v] = __float2half_rn(__fdividef(steepness * decay, total * total));
                }
                store<8>(&slope[i], slope8);
            } else {
                #pragma unroll 1
                for (int tail = i; tail < N; ++tail) {
                    const float x_i = __half2float(x[tail]);
                    const float decay = __expf(-fabsf(steepness * x_i));
                    const float total = 1.0f + decay;
                    slope[tail] = __float2half_rn(__fdividef(steepness * decay, total * total));
                }
            }
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t logistic_launch(
    const __half* x,
    __half* slope,
    float steepness,
    cudaStream_t stream)
{
    logistic<<<dim3((N + 8191) / 8192), dim3(256), 0, stream>>>(x, slope, steepness);
    return cudaGetLastError();
}

#endif
