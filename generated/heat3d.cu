// heat3d: One explicit step of the heat equation in three dimensions; outside the body it is 0 degrees
//
// computes  around[x, y, z] = (u[x - 1, y, z] + u[x + 1, y, z] + u[x, y - 1, z] + u[x, y + 1, z] + u[x, y, z - 1]
//           + u[x, y, z + 1])
//           next[x, y, z] = u[x, y, z] + alpha * (around[x, y, z] - 6 * u[x, y, z])
// params    X = 40, Y = 36, Z = 50
// u         input, float32 [40, 36, 50], outside: zero, aligned to 8 bytes
// next      output, float32 [40, 36, 50], aligned to 8 bytes
// launch    grid (1, 9, 10), block (32, 4, 1); family stencil
// bounds    23 of 23 accesses proved
// analysis  sm_90: 8 accesses, 6 ideal, 2 costly
//           worst: u[((x0 + plane - 1) * Y + y) * Z + z0 - 1], 7 sectors, ideal 3; 6.75 on average
//           (lanes 8 bytes apart)
//
// Made by cugen 0.1.0 from heat3d.yaml (hash a73dabdf51a984a6) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   u[((x0 - 1) * Y + y) * Z + z0]              7 sectors, ideal 7 (200 contiguous bytes)
//   u[((x0 + plane - 1) * Y + y - 1) * Z + z0]  7 sectors, ideal 7 (200 contiguous bytes)
//   u[((x0 + plane - 1) * Y + y) * Z + z0]      7 sectors, ideal 7 (200 contiguous bytes)
//   u[((x0 + plane - 1) * Y + y + 1) * Z + z0]  7 sectors, ideal 7 (200 contiguous bytes)
//   u[((x0 + 4) * Y + y) * Z + z0]              7 sectors, ideal 7 (200 contiguous bytes)
//   next[(x * Y + y) * Z + z0]                  7 sectors, ideal 7 (200 contiguous bytes)

constexpr int X = 40;
constexpr int Y = 36;
constexpr int Z = 50;
constexpr float alpha = 0.1f;

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

extern "C" __global__ void __launch_bounds__(128) heat3d(
    const float* __restrict__ u,
    float* __restrict__ next)
{
    const int x0 = blockIdx.z * 4;
    const int y = blockIdx.y * 4 + threadIdx.y;
    const int z0 = blockIdx.x * 64 + threadIdx.x * 2;
    if (z0 >= Z)
        return;

    // register windows: what the thread's outputs read
    float u_window[6][3][4];
    Vector<float, 2> u2_plane0_row1 = {};
    if (x0 - 1 >= 0) {
        u2_plane0_row1 = load<2>(&u[((x0 - 1) * Y + y) * Z + z0]);
    }
    #pragma unroll
    for (int v = 0; v < 2; ++v) {
        u_window[0][1][v + 1] = u2_plane0_row1.data[v];
    }
    #pragma unroll
    for (int plane = 1; plane < 5; ++plane) {
        Vector<float, 2> u2_row0 = {};
        if (y - 1 >= 0) {
            u2_row0 = load<2>(&u[((x0 + plane - 1) * Y + y - 1) * Z + z0]);
        }
        #pragma unroll
        for (int v = 0; v < 2; ++v) {
            u_window[plane][0][v + 1] = u2_row0.data[v];
        }
        const auto u2_row1 = load<2>(&u[((x0 + plane - 1) * Y + y) * Z + z0]);
        #pragma unroll
        for (int v = 0; v < 2; ++v) {
            u_window[plane][1][v + 1] = u2_row1.data[v];
        }
        // u[((x0 + plane - 1) * Y + y) * Z + z0 - 1]: 7 sectors, ideal 3; 6.75 on average (lanes 8 bytes apart)
        const float u_left = z0 - 1 >= 0 ? u[((x0 + plane - 1) * Y + y) * Z + z0 - 1] : 0.0f;
        u_window[plane][1][0] = u_left;
        // u[((x0 + plane - 1) * Y + y) * Z + z0 + 2]: 7 sectors, ideal 3; 6.75 on average (lanes 8 bytes apart)
        const float u_right = z0 + 2 < Z ? u[((x0 + plane - 1) * Y + y) * Z + z0 + 2] : 0.0f;
        u_window[plane][1][3] = u_right;
        Vector<float, 2> u2_row2 = {};
        if (y + 1 < Y) {
            u2_row2 = load<2>(&u[((x0 + plane - 1) * Y + y + 1) * Z + z0]);
        }
        #pragma unroll
        for (int v = 0; v < 2; ++v) {
            u_window[plane][2][v + 1] = u2_row2.data[v];
        }
    }
    Vector<float, 2> u2_plane5_row1 = {};
    if (x0 + 4 < X) {
        u2_plane5_row1 = load<2>(&u[((x0 + 4) * Y + y) * Z + z0]);
    }
    #pragma unroll
    for (int v = 0; v < 2; ++v) {
        u_window[5][1][v + 1] = u2_plane5_row1.data[v];
    }

    #pragma unroll
    for (int plane = 0; plane < 4; ++plane) {
        const int x = x0 + plane;
        Vector<float, 2> next2;
        #pragma unroll
        for (int v = 0; v < 2; ++v) {
            const float around = u_window[plane][1][v + 1] + u_window[plane + 2][1][v + 1]
                + u_window[plane + 1][0][v + 1] + u_window[plane + 1][2][v + 1] + u_window[plane + 1][1][v]
                + u_window[plane + 1][1][v + 2];
            next2.data[v] = u_window[plane + 1][1][v + 1] + alpha * (around - 6.0f * u_window[plane + 1][1][v + 1]);
        }
        store<2>(&next[(x * Y + y) * Z + z0], next2);
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t heat3d_launch(
    const float* u,
    float* next,
    cudaStream_t stream)
{
    heat3d<<<dim3((Z + 63) / 64, (Y + 3) / 4, (X + 3) / 4), dim3(32, 4), 0, stream>>>(u, next);
    return cudaGetLastError();
}

#endif
