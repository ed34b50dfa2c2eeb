// conv_channels: A convolution over many channels, with a bias and an activation; windows move along the channels
//
// computes  y[n, k, i, j] = relu(sum(w[k, c, r, s] * x[n, c, i + r - 1, j + s - 1], c, r, s) + bias[k])
// params    N = 2, C = 20, K = 6, H = 26, W = 32
// x         input, float32 [2, 20, 26, 32], outside: zero, aligned to 16 bytes
// w         input, float32 [6, 20, 3, 3]
// bias      input, float32 [6]
// y         output, float32 [2, 6, 26, 32], aligned to 16 bytes
// launch    grid (1, 2, 4), block (8, 16, 1); family stencil
// bounds    13 of 13 accesses proved
// analysis  sm_90: 6 accesses, 4 ideal, 2 costly
//           worst: x[((n * C + c) * H + h) * W + j0 - 1], 16 sectors, ideal 4; 14.48 on average
//           (112 bytes in 28 runs)
//
// Made by cugen 0.1.0 from conv_channels.yaml (hash f8d6ce4bf184dd11) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   x[((n * C + c) * H + h) * W + j0]  16 sectors, ideal 16 (512 contiguous bytes)
//   w[((k * C + c) * 3 + r) * 3 + s]   1 sector, ideal 1 (uniform address)
//   bias[k]                            1 sector, ideal 1 (uniform address)
//   y[((n * K + k) * H + i) * W + j0]  16 sectors, ideal 16 (512 contiguous bytes)

constexpr int C = 20;
constexpr int K = 6;
constexpr int H = 26;
constexpr int W = 32;

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

extern "C" __global__ void __launch_bounds__(128) conv_channels(
    const float* __restrict__ x,
    const float* __restrict__ w,
    const float* __restrict__ bias,
    float* __restrict__ y)
{
    const int n = blockIdx.z / ((K + 3) / 4);
    const int k0 = blockIdx.z % ((K + 3) / 4) * 4;
    const int i = blockIdx.y * 16 + threadIdx.y;
    const int j0 = blockIdx.x * 32 + threadIdx.x * 4;
    if (k0 >= K || i >= H)
        return;

    // for each channel: load the windows, and accumulate all outputs of the thread
    float sums[4][4] = {};
    for (int c = 0; c < C; ++c) {
        float x_window[3][6];
        #pragma unroll
        for (int row = 0; row < 3; ++row) {
            const int h = i + row - 1;
            Vector<float, 4> x4 = {};
            if (h >= 0 && h < H) {
                x4 = load<4>(&x[((n * C + c) * H + h) * W + j0]);
            }
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                x_window[row][v + 1] = x4.data[v];
            }
            // x[((n * C + c) * H + h) * W + j0 - 1]: 16 sectors, ideal 4; 14.48 on average (112 bytes in 28 runs)
            const float x_left = h >= 0 && h < H && j0 - 1 >= 0 ? x[((n * C + c) * H + h) * W + j0 - 1] : 0.0f;
            x_window[row][0] = x_left;
            // x[((n * C + c) * H + h) * W + j0 + 4]: 16 sectors, ideal 4; 14.48 on average (112 bytes in 28 runs)
            const float x_right = h >= 0 && h < H && j0 + 4 < W ? x[((n * C + c) * H + h) * W + j0 + 4] : 0.0f;
            x_window[row][5] = x_right;
        }
        #pragma unroll
        for (int channel = 0; channel < 4; ++channel) {
            const int k = k0 + channel;
            if (k < K) {
                #pragma unroll
                for (int v = 0; v < 4; ++v) {
                    float sum = sums[channel][v];
                    #pragma unroll
                    for (int r = 0; r < 3; ++r) {
                        #pragma unroll
                        for (int s = 0; s < 3; ++s) {
                            const float w_k_c_r_s = w[((k * C + c) * 3 + r) * 3 + s];
                            sum += w_k_c_r_s * x_window[r][v + s];
                        }
                    }
                    sums[channel][v] = sum;
                }
            }
        }
    }

    #pragma unroll
    for (int channel = 0; channel < 4; ++channel) {
        const int k = k0 + channel;
        if (k < K) {
            const float bias_k = bias[k];
            Vector<float, 4> y4;
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                y4.data[v] = maximum(sums[channel][v] + bias_k, 0.0f);
            }
            store<4>(&y[((n * K + k) * H + i) * W + j0], y4);
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int N = 2;

extern "C" cudaError_t conv_channels_launch(
    const float* x,
    const float* w,
    const float* bias,
    float* y,
    cudaStream_t stream)
{
    conv_channels<<<dim3((W + 31) / 32, (H + 15) / 16, N * ((K + 3) / 4)), dim3(8, 16), 0, stream>>>(x, w, bias, y);
    return cudaGetLastError();
}

#endif
