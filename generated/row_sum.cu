// row_sum: The sum of each row
//
// computes  y[i] = sum(x[i, j], j)
// params    M = 300, N = 513
// x         input, float32 [300, 513], aligned to 16 bytes
// y         output, float32 [300]
// launch    grid (300, 1, 1), block (256, 1, 1), 32 bytes of shared memory; family reduce
// bounds    5 of 5 accesses proved
// analysis  sm_90: 5 accesses, 3 ideal, 2 costly
//           worst: x[i * N + edge], 2 sectors, ideal 1; 1.5 on average (20 bytes in 2 runs)
//
// Made by cugen 0.1.0 from row_sum.yaml (hash c40e7c72b7405143) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   warp_sum[threadIdx.x / 32]  1 wavefront, ideal 1 (one word: broadcast)
//   warp_sum[threadIdx.x % 8]   1 wavefront, ideal 1 (conflict-free)
//   y[i]                        1 sector, ideal 1 (uniform address)

constexpr int N = 513;

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

extern "C" __global__ void __launch_bounds__(256) row_sum(
    const float* __restrict__ x,
    float* __restrict__ y)
{
    const int i = blockIdx.x;

    float sum = 0.0f;
    const int first = (4 - N * i % 4) % 4;
    const int edge = threadIdx.x < first ? threadIdx.x : threadIdx.x + 4 * ((N - first) / 4);
    if (edge < N) {
        // x[i * N + edge]: 2 sectors, ideal 1; 1.5 on average (20 bytes in 2 runs)
        const float x_i_j = x[i * N + edge];
        sum += x_i_j;
    }
    const int last_j = first + threadIdx.x * 4;
    if (last_j + 3 < N) {
        // x[i * N + last_j]: 17 sectors, ideal 16; 16.44 on average (misaligned by 16 bytes)
        const auto x4 = load<4>(&x[i * N + last_j]);
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            sum += x4.data[v];
        }
    }

    // block reduction: warp shuffles, then shared memory between warps
    #pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, lanes);
    }
    __shared__ float warp_sum[8];
    if (threadIdx.x % 32 == 0) {
        warp_sum[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = warp_sum[threadIdx.x % 8];
        #pragma unroll
        for (int lanes = 4; lanes > 0; lanes /= 2) {
            sum += __shfl_xor_sync(0xffffffff, sum, lanes);
        }
    }

    if (threadIdx.x != 0)
        return;
    y[i] = sum;
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int M = 300;

extern "C" cudaError_t row_sum_launch(
    const float* x,
    float* y,
    cudaStream_t stream)
{
    row_sum<<<dim3(M), dim3(256), 0, stream>>>(x, y);
    return cudaGetLastError();
}

#endif
