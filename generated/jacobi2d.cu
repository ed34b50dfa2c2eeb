// jacobi2d: One Jacobi step for Laplace's equation; the values on the edge are given and stay as they are
//
// computes  next[i, j] = where(0 < i and i < H - 1 and 0 < j and j < W - 1, 0.25 * (u[i - 1, j] + u[i + 1, j] +
//           u[i, j - 1] + u[i, j + 1]), u[i, j])
// params    H = 130, W = 170
// u         input, float32 [130, 170], aligned to 8 bytes
// next      output, float32 [130, 170], aligned to 8 bytes
// launch    grid (3, 33, 1), block (32, 4, 1); family stencil
// bounds    16 of 16 accesses proved
// analysis  sm_90: 6 accesses, 6 costly
//           worst: u[i * W + j0 + 2], 9 sectors, ideal 4; 7.75 on average (lanes 8 bytes apart)
//
// Made by cugen 0.1.0 from jacobi2d.yaml (hash d670d56827bffe08) for sm_90. Edit the spec, not this file.

constexpr int H = 130;
constexpr int W = 170;

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

extern "C" __global__ void __launch_bounds__(128) jacobi2d(
    const float* __restrict__ u,
    float* __restrict__ next)
{
    const int i = blockIdx.y * 4 + threadIdx.y;
    const int j0 = blockIdx.x * 64 + threadIdx.x * 2;
    if (i >= H || j0 >= W)
        return;

    // register windows: what the thread's outputs read
    float u_window[3][4];
    Vector<float, 2> u2_row0 = {};
    if (i - 1 >= 0) {
        // u[(i - 1) * W + j0]: 9 sectors, ideal 8; 7.83 on average (misaligned by 8 bytes)
        u2_row0 = load<2>(&u[(i - 1) * W + j0]);
    }
    #pragma unroll
    for (int v = 0; v < 2; ++v) {
        u_window[0][v + 1] = u2_row0.data[v];
    }
    // u[i * W + j0]: 9 sectors, ideal 8; 7.83 on average (misaligned by 8 bytes)
    const auto u2_row1 = load<2>(&u[i * W + j0]);
    #pragma unroll
    for (int v = 0; v < 2; ++v) {
        u_window[1][v + 1] = u2_row1.data[v];
    }
    // u[i * W + j0 - 1]: 9 sectors, ideal 4; 7.75 on average (lanes 8 bytes apart)
    const float u_left = j0 - 1 >= 0 ? u[i * W + j0 - 1] : 0.0f;
    u_window[1][0] = u_left;
    // u[i * W + j0 + 2]: 9 sectors, ideal 4; 7.75 on average (lanes 8 bytes apart)
    const float u_right = j0 + 2 < W ? u[i * W + j0 + 2] : 0.0f;
    u_window[1][3] = u_right;
    Vector<float, 2> u2_row2 = {};
    if (i + 1 < H) {
        // u[(i + 1) * W + j0]: 9 sectors, ideal 8; 7.83 on average (misaligned by 8 bytes)
        u2_row2 = load<2>(&u[(i + 1) * W + j0]);
    }
    #pragma unroll
    for (int v = 0; v < 2; ++v) {
        u_window[2][v + 1] = u2_row2.data[v];
    }

    Vector<float, 2> next2;
    #pragma unroll
    for (int v = 0; v < 2; ++v) {
        const int j = j0 + v;
        next2.data[v] = 0 < i && i < H - 1 && 0 < j && j < W - 1
            ? 0.25f * (u_window[0][v + 1] + u_window[2][v + 1] + u_window[1][v] + u_window[1][v + 2])
            : u_window[1][v + 1];
    }
    // next[i * W + j0]: 9 sectors, ideal 8; 7.83 on average (misaligned by 8 bytes)
    store<2>(&next[i * W + j0], next2);
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t jacobi2d_launch(
    const float* u,
    float* next,
    cudaStream_t stream)
{
    jacobi2d<<<dim3((W + 63) / 64, (H + 3) / 4), dim3(32, 4), 0, stream>>>(u, next);
    return cudaGetLastError();
}

#endif
