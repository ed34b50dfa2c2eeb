// cumulative_sum: The running sum along each row
//
// computes  y[i, j] = cumsum(x[i, j], j)
// params    M = 50, N = 300
// x         input, float32 [50, 300], aligned to 16 bytes
// y         output, float32 [50, 300], aligned to 16 bytes
// launch    grid (13, 1, 1), block (32, 4, 1); family scan
// bounds    4 of 4 accesses proved
// analysis  sm_90: 2 accesses, 2 costly
//           worst: x[i * N + first], 17 sectors, ideal 16; 13.01 on average (misaligned by 16 bytes)
//
// Made by cugen 0.1.0 from cumulative_sum.yaml (hash e6ea8f5f180d3d4a) for sm_90. Edit the spec, not this file.

constexpr int M = 50;
constexpr int N = 300;

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

extern "C" __global__ void __launch_bounds__(128) cumulative_sum(
    const float* __restrict__ x,
    float* __restrict__ y)
{
    const int i_unclamped = blockIdx.x * 4 + threadIdx.y;
    const int i = min(i_unclamped, M - 1);
    const int lane = threadIdx.x;

    Vector<float, 4> x4[4] = {};
    float warp_sum = 0.0f;
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
        const int first = 4 * lane + 128 * u;
        if (first < N) {
            // x[i * N + first]: 17 sectors, ideal 16; 13.01 on average (misaligned by 16 bytes)
            x4[u] = load<4>(&x[i * N + first]);
        }
    }
    // exclusive prefix of each vector
    float sum_before[4];
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
        float inclusive_sum = 0.0f;
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            inclusive_sum += x4[u].data[v];
        }
        float exclusive_sum;
        #pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) {
            exclusive_sum = __shfl_up_sync(0xffffffff, inclusive_sum, distance);
            inclusive_sum = lane >= distance ? exclusive_sum + inclusive_sum : inclusive_sum;
        }
        exclusive_sum = __shfl_up_sync(0xffffffff, inclusive_sum, 1);
        sum_before[u] = lane >= 1 ? warp_sum + exclusive_sum : warp_sum;
        warp_sum += __shfl_sync(0xffffffff, inclusive_sum, 31);
    }
    // scan of each vector, and the results
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
        const int first = 4 * lane + 128 * u;
        float sum = sum_before[u];
        if (i_unclamped < M && first < N) {
            Vector<float, 4> y4;
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                sum += x4[u].data[v];
                y4.data[v] = sum;
            }
            // y[i * N + first]: 17 sectors, ideal 16; 13 on average (misaligned by 16 bytes)
            store<4>(&y[i * N + first], y4);
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t cumulative_sum_launch(
    const float* x,
    float* y,
    cudaStream_t stream)
{
    cumulative_sum<<<dim3((M + 3) / 4), dim3(32, 4), 0, stream>>>(x, y);
    return cudaGetLastError();
}

#endif
