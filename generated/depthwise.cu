// depthwise: A filter of 3 × 3 taps of its own for each channel of a batch of half-precision images
//
// computes  y[n, c, i, j] = sum(x[n, c, i + r - 1, j + s - 1] * w[c, r, s], r, s)
// params    N = 2, C = 5, H = 27, W = 40
// x         input, float16 [2, 5, 27, 40], outside: zero, aligned to 16 bytes
// w         input, float16 [5, 3, 3]
// y         output, float16 [2, 5, 27, 40], aligned to 16 bytes
// launch    grid (1, 2, 10), block (8, 16, 1); family stencil
// bounds    9 of 9 accesses proved
// analysis  sm_90: 5 accesses, 1 ideal, 4 costly
//           worst: x[((n * C + c) * H + h) * W + j0 - 1], 10 sectors, ideal 1; 9.4 on average
//           (32 bytes in 16 runs)
//
// Made by cugen 0.1.0 from depthwise.yaml (hash 7fd631453481fd23) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   w[(c * 3 + r) * 3 + s]  1 sector, ideal 1 (uniform address)

#include <cuda_fp16.h>

constexpr int C = 5;
constexpr int H = 27;
constexpr int W = 40;

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

extern "C" __global__ void __launch_bounds__(128) depthwise(
    const __half* __restrict__ x,
    const __half* __restrict__ w,
    __half* __restrict__ y)
{
    const int n = blockIdx.z / C;
    const int c = blockIdx.z % C;
    const int i = blockIdx.y * 16 + threadIdx.y;
    const int j0 = blockIdx.x * 64 + threadIdx.x * 8;
    if (i >= H || j0 >= W)
        return;

    // register windows: what the thread's outputs read
    float x_window[3][10];
    #pragma unroll
    for (int row = 0; row < 3; ++row) {
        const int h = i + row - 1;
        Vector<__half, 8> x8 = {};
        if (h >= 0 && h < H) {
            // x[((n * C + c) * H + h) * W + j0]: 11 sectors, ideal 10; 9.9 on average (misaligned by 16 bytes)
            x8 = load<8>(&x[((n * C + c) * H + h) * W + j0]);
        }
        #pragma unroll
        for (int v = 0; v < 8; ++v) {
            x_window[row][v + 1] = __half2float(x8.data[v]);
        }
        // x[((n * C + c) * H + h) * W + j0 - 1]: 10 sectors, ideal 1; 9.4 on average (32 bytes in 16 runs)
        const float x_left = __half2float(h >= 0 && h < H && j0 - 1 >= 0
            ? x[((n * C + c) * H + h) * W + j0 - 1] : __float2half_rn(0.0f));
        x_window[row][0] = x_left;
        // x[((n * C + c) * H + h) * W + j0 + 8]: 10 sectors, ideal 1; 9.4 on average (32 bytes in 16 runs)
        const float x_right =
            __half2float(h >= 0 && h < H && j0 + 8 < W ? x[((n * C + c) * H + h) * W + j0 + 8] : __float2half_rn(0.0f));
        x_window[row][9] = x_right;
    }

    Vector<__half, 8> y8;
    #pragma unroll
    for (int v = 0; v < 8; ++v) {
        float sum = 0.0f;
        #pragma unroll
        for (int r = 0; r < 3; ++r) {
            #pragma unroll
            for (int s = 0; s < 3; ++s) {
                const float w_c_r_s = __half2float(w[(c * 3 + r) * 3 + s]);
                sum += x_window[r][v + s] * w_c_r_s;
            }
        }
        y8.data[v] = __float2half_rn(sum);
    }
    // y[((n * C + c) * H + i) * W + j0]: 11 sectors, ideal 10; 10.14 on average (misaligned by 16 bytes)
    store<8>(&y[((n * C + c) * H + i) * W + j0], y8);
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int N = 2;

extern "C" cudaError_t depthwise_launch(
    const __half* x,
    const __half* w,
    __half* y,
    cudaStream_t stream)
{
    depthwise<<<dim3((W + 63) / 64, (H + 15) / 16, C * N), dim3(8, 16), 0, stream>>>(x, w, y);
    return cudaGetLastError();
}

#endif
