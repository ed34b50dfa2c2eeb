// drawdown: How far prices fell below their highest so far
//
// computes  fall[t, k] = cummax(price[t, k], t) - price[t, k]
// params    T = 730, K = 300
// price     input, float32 [730, 300], aligned to 16 bytes
// fall      output, float32 [730, 300], aligned to 16 bytes
// launch    grid (10, 1, 1), block (8, 64, 1), 4096 bytes of shared memory; family scan
// bounds    4 of 4 accesses proved
// analysis  sm_90: 4 accesses, 2 ideal, 2 costly
//           worst: price[t * K + first], 20 sectors, ideal 16; 16.86 on average (512 bytes in 4 runs)
//
// Made by cugen 0.1.0 from drawdown.yaml (hash b63fad2d30b6963d) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   warp_largests[start / 512][v][threadIdx.y / 4][threadIdx.x]  1 wavefront, ideal 1 (conflict-free)
//   warp_largests[start / 512][v][group][threadIdx.x]            1 wavefront, ideal 1 (conflict-free)

#include <math_constants.h>

constexpr int T = 730;
constexpr int K = 300;

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

#ifndef CUGEN_MAXIMUM_FLOAT
#define CUGEN_MAXIMUM_FLOAT
// Maximum; NaN if an operand is NaN.
__device__ __forceinline__ float maximum(float a, float b)
{
#if __CUDA_ARCH__ >= 800
    float result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
#else
    return a > b || a != a ? a : b;
#endif
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

extern "C" __global__ void __launch_bounds__(512) drawdown(
    const float* __restrict__ price,
    float* __restrict__ fall)
{
    const int first = blockIdx.x * 32 + threadIdx.x * 4;
    const int lane = threadIdx.x + threadIdx.y % 4 * 8;

    __shared__ float warp_largests[2][4][16][8];

    Vector<float, 4> largest_so_far;
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        largest_so_far.data[v] = -CUDART_INF_F;
    }
    for (int start = 0; start < T; start += 512) {
        Vector<float, 4> price4[8];
        #pragma unroll
        for (int u = 0; u < 8; ++u) {
            const int t = start + threadIdx.y * 8 + u;
            if (first < K && t < T) {
                // price[t * K + first]: 20 sectors, ideal 16; 16.86 on average (512 bytes in 4 runs)
                price4[u] = load<4>(&price[t * K + first]);
            }
        }
        // aggregate of the thread's elements, then the exclusive prefix of its part of the column
        Vector<float, 4> partial_largest;
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            partial_largest.data[v] = -CUDART_INF_F;
        }
        #pragma unroll
        for (int u = 0; u < 8; ++u) {
            const int t = start + threadIdx.y * 8 + u;
            if (first < K && t < T) {
                #pragma unroll
                for (int v = 0; v < 4; ++v) {
                    const float price_t_k = price4[u].data[v];
                    partial_largest.data[v] = maximum(partial_largest.data[v], price_t_k);
                }
            }
        }
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            float inclusive_largest = partial_largest.data[v];
            float exclusive_largest;
            #pragma unroll
            for (int distance = 8; distance < 32; distance *= 2) {
                exclusive_largest = __shfl_up_sync(0xffffffff, inclusive_largest, distance);
                inclusive_largest = lane >= distance
                    ? maximum(exclusive_largest, inclusive_largest) : inclusive_largest;
            }
            exclusive_largest = __shfl_up_sync(0xffffffff, inclusive_largest, 8);
            partial_largest.data[v] = lane >= 8 ? exclusive_largest : -CUDART_INF_F;
            if (lane >= 24) {
                warp_largests[start / 512][v][threadIdx.y / 4][threadIdx.x] = inclusive_largest;
            }
        }
        __syncthreads();
        Vector<float, 4> largest;
        #pragma unroll
        for (int group = 0; group < 16; ++group) {
            if (group == threadIdx.y / 4) {
                largest = largest_so_far;
            }
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                largest_so_far.data[v] =
                    maximum(largest_so_far.data[v], warp_largests[start / 512][v][group][threadIdx.x]);
            }
        }
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            largest.data[v] = maximum(largest.data[v], partial_largest.data[v]);
        }
        // scan of the elements, and the results
        #pragma unroll
        for (int u = 0; u < 8; ++u) {
            const int t = start + threadIdx.y * 8 + u;
            if (first < K && t < T) {
                Vector<float, 4> fall4;
                #pragma unroll
                for (int v = 0; v < 4; ++v) {
                    const float price_t_k = price4[u].data[v];
                    largest.data[v] = maximum(largest.data[v], price_t_k);
                    fall4.data[v] = largest.data[v] - price_t_k;
                }
                // fall[t * K + first]: 20 sectors, ideal 16; 16.86 on average (512 bytes in 4 runs)
                store<4>(&fall[t * K + first], fall4);
            }
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t drawdown_launch(
    const float* price,
    float* fall,
    cudaStream_t stream)
{
    drawdown<<<dim3((K + 31) / 32), dim3(8, 64), 0, stream>>>(price, fall);
    return cudaGetLastError();
}

#endif
