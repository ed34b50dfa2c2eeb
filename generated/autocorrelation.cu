// autocorrelation: How alike each signal is to itself some samples later; the threads of a block share the terms
//
// computes  r[b, l] = sum(x[b, t] * x[b, t + l], t, where=t + l < N)
// params    B = 30, N = 5000, L = 100
// x         input, float32 [30, 5000], aligned to 16 bytes
// r         output, float32 [30, 100], aligned to 16 bytes
// launch    grid (1, 30, 1), block (32, 1, 8), 9856 bytes of shared memory; family correlation
// bounds    13 of 13 accesses proved
// analysis  sm_90: 10 accesses, 10 ideal
//
// Made by cugen 0.1.0 from autocorrelation.yaml (hash c3958207ed0a87ba) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   x[blockIdx.y * N + t_first + 4 * vector]              16 sectors, ideal 16 (512 contiguous bytes)
//   x_tile[vector + v / 4][v]                             1 wavefront, ideal 1 (odd pitch 5: 32 banks)
//   x[blockIdx.y * N + n]                                 never runs
//   x_tile[vector + v / 4][v]                             1 wavefront, ideal 1 (odd pitch 5: 30 banks)
//   x_tile[threadIdx.x + threadIdx.z * 32 + 16 * t_window + column / 4][column % 4]
//       1 wavefront, ideal 1 (odd pitch 5: 32 banks)
//   x_tile[threadIdx.z * 32 + 16 * t_window + tap / 4][tap % 4]
//       1 wavefront, ideal 1 (one word: broadcast), at 2 places
//   slices_of_sum4[threadIdx.z][threadIdx.x + 32 * u][0]  1 wavefront, ideal 1 (odd pitch 1: 32 banks)
//   slices_of_sum4[slice][threadIdx.x + 32 * u][0]        1 wavefront, ideal 1 (odd pitch 1: 32 banks)
//   r[b * L + first_l]                                    13 sectors, ideal 13 (400 contiguous bytes)

constexpr int N = 5000;
constexpr int L = 100;

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

extern "C" __global__ void __launch_bounds__(256) autocorrelation(
    const float* __restrict__ x,
    float* __restrict__ r)
{
    __shared__ __align__(16) float x_tile[288][5];
    __shared__ float slices_of_sum4[8][128][1];

    const int b = blockIdx.y;
    const int first_l = blockIdx.x * 128 + threadIdx.x * 4;

    // the block fills the next tiles, along which register windows slide
    Vector<float, 4> sum4;
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
        sum4.data[u] = 0.0f;
    }
    for (int t_first = 0; t_first < N; t_first += 1024) {
        for (int vector = threadIdx.x + threadIdx.z * 32; vector < 288; vector += 256) {
            if (t_first + 4 * vector + 3 < N) {
                const auto x4 = load<4>(&x[blockIdx.y * N + t_first + 4 * vector]);
                #pragma unroll
                for (int v = 0; v < 4; ++v) {
                    x_tile[vector + v / 4][v] = x4.data[v];
                }
            } else {
                #pragma unroll
                for (int v = 0; v < 4; ++v) {
                    const int n = t_first + 4 * vector + v;
                    x_tile[vector + v / 4][v] = n < N ? x[blockIdx.y * N + n] : 0.0f;
                }
            }
        }
        __syncthreads();
        Vector<float, 4> partial_sum4;
        #pragma unroll
        for (int u = 0; u < 4; ++u) {
            partial_sum4.data[u] = 0.0f;
        }
        for (int t_window = 0; t_window < min(2, (N + 63 - threadIdx.z * 128 - t_first) / 64); ++t_window) {
            float x_window[67];
            #pragma unroll
            for (int column = 0; column < 67; ++column) {
                x_window[column] = x_tile[threadIdx.x + threadIdx.z * 32 + 16 * t_window + column / 4][column % 4];
            }
            if (first_l + t_first + threadIdx.z * 128 + 64 * t_window + 66 < N
                && t_first + threadIdx.z * 128 + 64 * t_window + 63 < N) {
                #pragma unroll
                for (int tap = 0; tap < 64; ++tap) {
                    const float x_b_t = x_tile[threadIdx.z * 32 + 16 * t_window + tap / 4][tap % 4];
                    #pragma unroll
                    for (int u = 0; u < 4; ++u) {
                        partial_sum4.data[u] += x_b_t * x_window[u + tap];
                    }
                }
            } else {
                #pragma unroll
                for (int tap = 0; tap < 64; ++tap) {
                    const int t = t_first + threadIdx.z * 128 + 64 * t_window + tap;
                    #pragma unroll
                    for (int u = 0; u < 4; ++u) {
                        const int l = min(first_l + u, L - 1);
                        if (l + t < N && t < N) {
                            const float x_b_t = x_tile[threadIdx.z * 32 + 16 * t_window + tap / 4][tap % 4];
                            partial_sum4.data[u] += x_b_t * x_window[u + tap];
                        }
                    }
                }
            }
        }
        #pragma unroll
        for (int u = 0; u < 4; ++u) {
            sum4.data[u] += partial_sum4.data[u];
        }
        __syncthreads();
    }

    // each row of threads has accumulated a slice of the terms; the first combines the results
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
        slices_of_sum4[threadIdx.z][threadIdx.x + 32 * u][0] = sum4.data[u];
    }
    __syncthreads();

    if (threadIdx.z == 0) {
        Vector<float, 4> r4;
        #pragma unroll
        for (int u = 0; u < 4; ++u) {
            #pragma unroll
            for (int slice = 1; slice < 8; ++slice) {
                sum4.data[u] += slices_of_sum4[slice][threadIdx.x + 32 * u][0];
            }
            r4.data[u] = sum4.data[u];
        }
        if (first_l < L) {
            store<4>(&r[b * L + first_l], r4);
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int B = 30;

extern "C" cudaError_t autocorrelation_launch(
    const float* x,
    float* r,
    cudaStream_t stream)
{
    autocorrelation<<<dim3((L + 127) / 128, B), dim3(32, 1, 8), 0, stream>>>(x, r);
    return cudaGetLastError();
}

#endif
