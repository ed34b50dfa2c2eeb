// suffix_sums: The sum of all positive elements to the right of each, in rows of any length
//
// computes  y[i, j] = cumsum(x[i, j], j, reverse=true, exclusive=true, where=x[i, j] > 0)
// params    M (dynamic), N (dynamic, 0 to 1048576, multiples of 8)
// x         input, float16 [M, N], aligned to 8 bytes
// y         output, float32 [M, N], aligned to 16 bytes
// launch    grid (M, 1, 1), block (128, 1, 1), 32 bytes of shared memory; family scan
// bounds    6 of 6 accesses proved
// analysis  sm_90: 4 accesses, 3 ideal, 1 costly
//           worst: x[i * N + first], 9 sectors, ideal 8; 8.5 on average (worst at N mod 16 = 8)
//
// Made by cugen 0.1.0 from suffix_sums.yaml (hash 530f808454868eaf) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   warp_sums[start / 1024 % 2][warp]  1 wavefront, ideal 1 (at any M, N)
//   warp_sums[start / 1024 % 2][w]     1 wavefront, ideal 1 (at any M, N)
//   y[(long long)i * N + first]        16 sectors, ideal 16 (at any M, N)

#include <cuda_fp16.h>

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

extern "C" __global__ void __launch_bounds__(128) suffix_sums(
    const __half* __restrict__ x,
    float* __restrict__ y,
    int N)
{
    const int i = blockIdx.x;
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;

    __shared__ float warp_sums[2][4];

    Vector<__half, 4> x4[2] = {};
    float sum_so_far = 0.0f;
    for (int start = 0; start < N; start += 1024) {
        #pragma unroll
        for (int u = 0; u < 2; ++u) {
            const int first = N - start - 4 * lane - 256 * warp - 128 * u - 4;
            if (first >= 0) {
                // x[(long long)i * N + first]: 9 sectors, ideal 8; 8.5 on average (worst at N mod 16 = 8)
                x4[u] = load<4>(&x[(long long)i * N + first]);
            }
        }
        // exclusive prefix of each vector within its warp
        float sum_before[2];
        float warp_sum = 0.0f;
        #pragma unroll
        for (int u = 0; u < 2; ++u) {
            float inclusive_sum = 0.0f;
            #pragma unroll
            for (int v = 3; v >= 0; --v) {
                const float x_i_j = __half2float(x4[u].data[v]);
                if (x_i_j > 0.0f) {
                    inclusive_sum += x_i_j;
                }
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
        // exclusive prefix of the warp, from the totals of the preceding warps
        if (lane == 0) {
            warp_sums[start / 1024 % 2][warp] = warp_sum;
        }
        __syncthreads();
        float preceding_sum = 0.0f;
        #pragma unroll
        for (int w = 0; w < 4; ++w) {
            if (w == warp) {
                preceding_sum = sum_so_far;
            }
            sum_so_far += warp_sums[start / 1024 % 2][w];
        }
        // scan of each vector, and the results
        #pragma unroll
        for (int u = 0; u < 2; ++u) {
            const int first = N - start - 4 * lane - 256 * warp - 128 * u - 4;
            float sum = preceding_sum + sum_before[u];
            if (first >= 0) {
                Vector<float, 4> y4;
                #pragma unroll
                for (int v = 3; v >= 0; --v) {
                    const float x_i_j = __half2float(x4[u].data[v]);
                    y4.data[v] = sum;
                    if (x_i_j > 0.0f) {
                        sum += x_i_j;
                    }
                }
                store<4>(&y[(long long)i * N + first], y4);
            }
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t suffix_sums_launch(
    const __half* x,
    float* y,
    int M,
    int N,
    cudaStream_t stream)
{
    if (M < 0)
        return cudaErrorInvalidValue;
    if (N < 0 || N > 1048576 || N % 8 != 0)
        return cudaErrorInvalidValue;
    if (M > 0)
        suffix_sums<<<dim3(M), dim3(128), 0, stream>>>(x, y, N);
    return cudaGetLastError();
}

#endif
