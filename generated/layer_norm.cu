// layer_norm: Each row brought to mean 0 and variance 1, then scaled and shifted
//
// computes  mu[i] = mean(x[i, j], j)
//           scale[i] = rsqrt(var(x[i, j], j) + eps)
//           y[i, j] = (x[i, j] - mu[i]) * scale[i] * gamma[j] + beta[j]
// params    M = 96, N = 200
// x         input, float32 [96, 200], aligned to 16 bytes
// gamma     input, float32 [200], aligned to 16 bytes
// beta      input, float32 [200], aligned to 16 bytes
// y         output, float32 [96, 200], aligned to 16 bytes
// launch    grid (24, 1, 1), block (32, 4, 1); family rowwise
// bounds    4 of 4 accesses proved
// analysis  sm_90: 4 accesses, 4 ideal
//
// Made by cugen 0.1.0 from layer_norm.yaml (hash 01977706383a6c00) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   x[i * N + j]  16 sectors, ideal 16 (512 contiguous bytes)
//   gamma_[j]     16 sectors, ideal 16 (512 contiguous bytes)
//   beta[j]       16 sectors, ideal 16 (512 contiguous bytes)
//   y[i * N + j]  16 sectors, ideal 16 (512 contiguous bytes)

constexpr int N = 200;
constexpr float eps = 1e-05f;

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

extern "C" __global__ void __launch_bounds__(128) layer_norm(
    const float* __restrict__ x,
    const float* __restrict__ gamma_,
    const float* __restrict__ beta,
    float* __restrict__ y)
{
    const int i = blockIdx.x * 4 + threadIdx.y;

    Vector<float, 4> x4[2];
    #pragma unroll
    for (int s = 0; s < 2; ++s) {
        const int j = threadIdx.x * 4 + 128 * s;
        if (j < N) {
            x4[s] = load<4>(&x[i * N + j]);
        }
    }

    float sum = 0.0f;
    #pragma unroll
    for (int s = 0; s < 2; ++s) {
        const int j = threadIdx.x * 4 + 128 * s;
        if (j < N) {
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                sum += x4[s].data[v];
            }
        }
    }
    #pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, lanes);
    }

    const float mu = sum / N;
    float sum_ = 0.0f;
    #pragma unroll
    for (int s = 0; s < 2; ++s) {
        const int j = threadIdx.x * 4 + 128 * s;
        if (j < N) {
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                const float x_value = x4[s].data[v];
                const float difference = x_value - mu;
                sum_ += difference * difference;
            }
        }
    }
    #pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        sum_ += __shfl_xor_sync(0xffffffff, sum_, lanes);
    }

    const float scale = rsqrtf(sum_ / N + eps);
    #pragma unroll
    for (int s = 0; s < 2; ++s) {
        const int j = threadIdx.x * 4 + 128 * s;
        if (j < N) {
            const auto gamma4 = load<4>(&gamma_[j]);
            const auto beta4 = load<4>(&beta[j]);
            Vector<float, 4> y4;
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                y4.data[v] = (x4[s].data[v] - mu) * scale * gamma4.data[v] + beta4.data[v];
            }
            store<4>(&y[i * N + j], y4);
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int M = 96;

extern "C" cudaError_t layer_norm_launch(
    const float* x,
    const float* gamma_,
    const float* beta,
    float* y,
    cudaStream_t stream)
{
    layer_norm<<<dim3((M + 3) / 4), dim3(32, 4), 0, stream>>>(x, gamma_, beta, y);
    return cudaGetLastError();
}

#endif
