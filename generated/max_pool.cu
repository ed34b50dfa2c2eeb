// max_pool: The largest value in windows of 3 × 3 that overlap by one, as between the layers of a neural network
//
// computes  y[c, i, j] = max(x[c, 2 * i + r - 1, 2 * j + s - 1], r, s)
// params    C = 3, H = 61, W = 88
// x         input, float32 [3, 61, 88], outside: -inf, aligned to 16 bytes
// y         output, float32 [3, 31, 44], aligned to 8 bytes
// launch    grid (1, 8, 3), block (32, 4, 1); family stencil
// bounds    7 of 7 accesses proved
// analysis  sm_90: 3 accesses, 2 ideal, 1 costly
//           worst: x[(c * H + h) * W + 2 * j0 - 1], 11 sectors, ideal 3 (lanes 16 bytes apart)
//
// Made by cugen 0.1.0 from max_pool.yaml (hash 0fc060bc6f9aa5f1) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   x[(c * H + h) * W + 2 * j0]                11 sectors, ideal 11 (352 contiguous bytes)
//   y[(c * ((H + 1) / 2) + i) * (W / 2) + j0]  6 sectors, ideal 6 (176 contiguous bytes)

#include <math_constants.h>

constexpr int H = 61;
constexpr int W = 88;

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

extern "C" __global__ void __launch_bounds__(128) max_pool(
    const float* __restrict__ x,
    float* __restrict__ y)
{
    const int c = blockIdx.z;
    const int i = blockIdx.y * 4 + threadIdx.y;
    const int j0 = blockIdx.x * 64 + threadIdx.x * 2;
    if (i >= (H + 1) / 2 || j0 >= W / 2)
        return;

    // register windows: what the thread's outputs read
    float x_window[3][5];
    #pragma unroll
    for (int row = 0; row < 3; ++row) {
        const int h = 2 * i + row - 1;
        if (h >= 0 && h < H) {
            const auto x4 = load<4>(&x[(c * H + h) * W + 2 * j0]);
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                x_window[row][v + 1] = x4.data[v];
            }
        } else {
            #pragma unroll
            for (int column = 4; column < 8; ++column) {
                x_window[row][column - 3] = -CUDART_INF_F;
            }
        }
        // x[(c * H + h) * W + 2 * j0 - 1]: 11 sectors, ideal 3 (lanes 16 bytes apart)
        const float x_left = h >= 0 && h < H && 2 * j0 - 1 >= 0 ? x[(c * H + h) * W + 2 * j0 - 1] : -CUDART_INF_F;
        x_window[row][0] = x_left;
    }

    Vector<float, 2> y2;
    #pragma unroll
    for (int v = 0; v < 2; ++v) {
        float largest = -CUDART_INF_F;
        #pragma unroll
        for (int r = 0; r < 3; ++r) {
            #pragma unroll
            for (int s = 0; s < 3; ++s) {
                largest = maximum(largest, x_window[r][2 * v + s]);
            }
        }
        y2.data[v] = largest;
    }
    store<2>(&y[(c * ((H + 1) / 2) + i) * (W / 2) + j0], y2);
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int C = 3;

extern "C" cudaError_t max_pool_launch(
    const float* x,
    float* y,
    cudaStream_t stream)
{
    max_pool<<<dim3((W / 2 + 63) / 64, ((H + 1) / 2 + 3) / 4, C), dim3(32, 4), 0, stream>>>(x, y);
    return cudaGetLastError();
}

#endif
