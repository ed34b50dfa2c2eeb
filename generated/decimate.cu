// decimate: A low-pass filter of 32 taps at every fourth sample; register windows of a
// thread's results slide along a tile
//
// computes  y[i] = sum(h[k] * x[4 * i + k], k)
// params    N = 300007, T = 32
// x         input, float32 [1200060], aligned to 16 bytes
// h         input, float32 [32]
// y         output, float32 [300007], aligned to 16 bytes
// launch    grid (586, 1, 1), block (128, 1, 1), 8968 bytes of shared memory; family correlation
// bounds    12 of 12 accesses proved
// analysis  sm_90: 10 accesses, 8 ideal, 2 costly
//           worst: x_tile[(4 * vector + v) / 16][(4 * vector + v) % 16], 2 wavefronts, ideal 1; 1.94 on average
//
// Made by cugen 0.1.0 from decimate.yaml (hash 2aa93fd33c8de8b3) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   h[threadIdx.x]                                  4 sectors, ideal 4 (128 contiguous bytes)
//   h_tile[threadIdx.x]                             1 wavefront, ideal 1 (conflict-free)
//   x[i_first + 4 * vector]                         16 sectors, ideal 16 (512 contiguous bytes)
//   x[position]                                     never runs
//   x_tile[threadIdx.x + column / 16][column % 16]  1 wavefront, ideal 1 (odd pitch 17: 32 banks)
//   h_tile[tap]                                     1 wavefront, ideal 1 (one word: broadcast)
//   y[first_i]                                      16 sectors, ideal 16 (512 contiguous bytes)
//   y[first_i + u]                                  1 sector, ideal 1 (uniform address)

constexpr int N = 300007;
constexpr int T = 32;

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

extern "C" __global__ void __launch_bounds__(128) decimate(
    const float* __restrict__ x,
    const float* __restrict__ h,
    float* __restrict__ y)
{
    __shared__ __align__(16) float h_tile[32];
    __shared__ __align__(16) float x_tile[130][17];

    const int i_first = blockIdx.x * 2048;
    // the block fills the tiles
    if (threadIdx.x < 32) {
        h_tile[threadIdx.x] = h[threadIdx.x];
    }
    for (int vector = threadIdx.x; vector < 519; vector += 128) {
        if (i_first + 4 * vector + 3 < 4 * N + T) {
            const auto x4 = load<4>(&x[i_first + 4 * vector]);
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                // x_tile[(4 * vector + v) / 16][(4 * vector + v) % 16]: 2 wavefronts, ideal 1; 1.94 on average
                x_tile[(4 * vector + v) / 16][(4 * vector + v) % 16] = x4.data[v];
            }
        } else {
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                const int position = i_first + 4 * vector + v;
                // x_tile[(4 * vector + v) / 16][(4 * vector + v) % 16]: 2 wavefronts, ideal 1; 1.5 on average
                x_tile[(4 * vector + v) / 16][(4 * vector + v) % 16] = position < 4 * N + T ? x[position] : 0.0f;
            }
        }
    }
    __syncthreads();

    const int first_i = blockIdx.x * 512 + threadIdx.x * 4;

    // register windows slide along the tiles
    Vector<float, 4> sum4;
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
        sum4.data[u] = 0.0f;
    }
    float x_window[44];
    #pragma unroll
    for (int column = 0; column < 44; ++column) {
        x_window[column] = x_tile[threadIdx.x + column / 16][column % 16];
    }
    #pragma unroll
    for (int tap = 0; tap < 32; ++tap) {
        const float h_k = h_tile[tap];
        #pragma unroll
        for (int u = 0; u < 4; ++u) {
            sum4.data[u] += h_k * x_window[4 * u + tap];
        }
    }

    Vector<float, 4> y4;
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
        y4.data[u] = sum4.data[u];
    }
    if (first_i + 4 <= N) {
        store<4>(&y[first_i], y4);
    } else {
        #pragma unroll
        for (int u = 0; u < 4; ++u) {
            if (first_i + u < N) {
                y[first_i + u] = y4.data[u];
            }
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t decimate_launch(
    const float* x,
    const float* h,
    float* y,
    cudaStream_t stream)
{
    decimate<<<dim3((N + 511) / 512), dim3(128), 0, stream>>>(x, h, y);
    return cudaGetLastError();
}

#endif
