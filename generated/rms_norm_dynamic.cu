// rms_norm_dynamic: Each row scaled to root mean square 1, for any number of rows
//
// computes  scale[i] = rsqrt(mean(x[i, j] * x[i, j], j) + eps)
//           y[i, j] = x[i, j] * scale[i] * weight[j]
// params    M (dynamic), N (dynamic, 64 to 8192, multiples of 64)
// x         input, float32 [M, N], aligned to 16 bytes
// weight    input, float32 [N], aligned to 16 bytes
// y         output, float32 [M, N], aligned to 16 bytes
// launch    grid (M, 1, 1), block (256, 1, 1), 32 bytes of shared memory; family rowwise
// bounds    5 of 5 accesses proved
// analysis  sm_90: 5 accesses, 5 ideal
//
// Made by cugen 0.1.0 from rms_norm_dynamic.yaml (hash ddbd1abf96899ff0) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   x[(long long)i * N + j]     16 sectors, ideal 16 (at any M, N)
//   warp_sum[threadIdx.x / 32]  1 wavefront, ideal 1 (at any M, N)
//   warp_sum[threadIdx.x % 8]   1 wavefront, ideal 1 (at any M, N)
//   weight[j]                   16 sectors, ideal 16 (at any M, N)
//   y[(long long)i * N + j]     16 sectors, ideal 16 (at any M, N)

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

extern "C" __global__ void __launch_bounds__(256) rms_norm_dynamic(
    const float* __restrict__ x,
    const float* __restrict__ weight,
    float* __restrict__ y,
    float eps,
    int N)
{
    const int i = blockIdx.x;

    Vector<float, 4> x4[8];
    #pragma unroll
    for (int s = 0; s < 8; ++s) {
        const int j = threadIdx.x * 4 + 1024 * s;
        if (j < N) {
            x4[s] = load<4>(&x[(long long)i * N + j]);
        }
    }

    float sum = 0.0f;
    #pragma unroll
    for (int s = 0; s < 8; ++s) {
        const int j = threadIdx.x * 4 + 1024 * s;
        if (j < N) {
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                const float x_value = x4[s].data[v];
                sum += x_value * x_value;
            }
        }
    }
    #pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, lanes);
    }
    __shared__ float warp_sum[8];
    if (threadIdx.x % 32 == 0) {
        warp_sum[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    sum = warp_sum[threadIdx.x % 8];
    #pragma unroll
    for (int lanes = 4; lanes > 0; lanes /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, lanes);
    }

    const float scale = rsqrtf(sum / N + eps);
    #pragma unroll
    for (int s = 0; s < 8; ++s) {
        const int j = threadIdx.x * 4 + 1024 * s;
        if (j < N) {
            const auto weight4 = load<4>(&weight[j]);
            Vector<float, 4> y4;
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                y4.data[v] = x4[s].data[v] * scale * weight4.data[v];
            }
            store<4>(&y[(long long)i * N + j], y4);
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t rms_norm_dynamic_launch(
    const float* x,
    const float* weight,
    float* y,
    float eps,
    int M,
    int N,
    cudaStream_t stream)
{
    if (M < 0)
        return cudaErrorInvalidValue;
    if (N < 64 || N > 8192 || N % 64 != 0)
        return cudaErrorInvalidValue;
    if (M > 0)
        rms_norm_dynamic<<<dim3(M), dim3(256), 0, stream>>>(x, weight, y, eps, N);
    return cudaGetLastError();
}

#endif
