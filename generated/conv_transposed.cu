// conv_transposed: A transposed convolution with stride 2, which doubles an image
//
// computes  y[o, p, q] = sum(w[c, o, r, s] * x[c, (p + pad - r) // stride, (q + pad - s) // stride], c, r, s,
//           where=(p + pad - r) % stride == 0 and (q + pad - s) % stride == 0)
// params    C = 4, O = 5, H = 17, W = 20, R = 4, stride = 2, pad = 1, P = 34, Q = 40
// x         input, float32 [4, 17, 20], outside: zero, aligned to 8 bytes
// w         input, float32 [4, 5, 4, 4]
// y         output, float32 [5, 34, 40], aligned to 16 bytes
// launch    grid (1, 3, 5), block (16, 8, 1); family stencil
// bounds    9 of 9 accesses proved
// analysis  sm_90: 5 accesses, 2 ideal, 3 costly
//           worst: x[(plane * H + h) * W + q0 / 2 - 1], 6 sectors, ideal 3; 5.21 on average (72 bytes in 18 runs)
//
// Made by cugen 0.1.0 from conv_transposed.yaml (hash cc72c12fbd4fa39c) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   w[((c * O + o) * R + (row + 1) % 2 + 2 * r_outer) * R + (v + 1) % 2 + 2 * s_outer]
//       1 sector, ideal 1 (uniform address)
//   y[(o * P + p) * Q + q0]  10 sectors, ideal 10 (320 bytes in 2 runs)

constexpr int C = 4;
constexpr int O = 5;
constexpr int H = 17;
constexpr int W = 20;
constexpr int R = 4;
constexpr int P = 34;
constexpr int Q = 40;

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

extern "C" __global__ void __launch_bounds__(128) conv_transposed(
    const float* __restrict__ x,
    const float* __restrict__ w,
    float* __restrict__ y)
{
    const int o = blockIdx.z;
    const int p0 = blockIdx.y * 16 + threadIdx.y * 2;
    const int q0 = blockIdx.x * 64 + threadIdx.x * 4;
    if (p0 >= P || q0 >= Q)
        return;

    // register windows: what the thread's outputs read
    float x_window[4][3][4];
    #pragma unroll
    for (int plane = 0; plane < 4; ++plane) {
        #pragma unroll
        for (int row = 0; row < 3; ++row) {
            const int h = p0 / 2 + row - 1;
            Vector<float, 2> x2 = {};
            if (h >= 0 && h < H) {
                // x[(plane * H + h) * W + q0 / 2]: 6 sectors, ideal 5; 5.21 on average (misaligned by 16 bytes)
                x2 = load<2>(&x[(plane * H + h) * W + q0 / 2]);
            }
            #pragma unroll
            for (int v = 0; v < 2; ++v) {
                x_window[plane][row][v + 1] = x2.data[v];
            }
            // x[(plane * H + h) * W + q0 / 2 - 1]: 6 sectors, ideal 3; 5.21 on average (72 bytes in 18 runs)
            const float x_left = h >= 0 && h < H && q0 / 2 - 1 >= 0 ? x[(plane * H + h) * W + q0 / 2 - 1] : 0.0f;
            x_window[plane][row][0] = x_left;
            // x[(plane * H + h) * W + q0 / 2 + 2]: 6 sectors, ideal 3; 5.21 on average (72 bytes in 18 runs)
            const float x_right = h >= 0 && h < H && q0 / 2 + 2 < W ? x[(plane * H + h) * W + q0 / 2 + 2] : 0.0f;
            x_window[plane][row][3] = x_right;
        }
    }

    #pragma unroll
    for (int row = 0; row < 2; ++row) {
        const int p = p0 + row;
        Vector<float, 4> y4;
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            float sum = 0.0f;
            #pragma unroll
            for (int c = 0; c < C; ++c) {
                #pragma unroll
                for (int r_outer = 0; r_outer < 2; ++r_outer) {
                    #pragma unroll
                    for (int s_outer = 0; s_outer < 2; ++s_outer) {
                        const float w_value =
                            w[((c * O + o) * R + (row + 1) % 2 + 2 * r_outer) * R + (v + 1) % 2 + 2 * s_outer];
                        sum += w_value * x_window[c][(row + 1) / 2 + 1 - r_outer][(v + 1) / 2 + 1 - s_outer];
                    }
                }
            }
            y4.data[v] = sum;
        }
        store<4>(&y[(o * P + p) * Q + q0], y4);
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t conv_transposed_launch(
    const float* x,
    const float* w,
    float* y,
    cudaStream_t stream)
{
    conv_transposed<<<dim3((Q + 63) / 64, (P + 15) / 16, O), dim3(16, 8), 0, stream>>>(x, w, y);
    return cudaGetLastError();
}

#endif
