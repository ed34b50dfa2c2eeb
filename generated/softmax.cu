// softmax: The softmax of each row, safe for scores whose exp overflows
//
// computes  y[i, j] = softmax(x[i, j], j)
// params    M = 100, N = 257
// x         input, float32 [100, 257], aligned to 16 bytes
// y         output, float32 [100, 257], aligned to 16 bytes
// launch    grid (25, 1, 1), block (32, 4, 1); family rowwise
// bounds    4 of 4 accesses proved
// analysis  sm_90: 4 accesses, 4 costly
//           worst: x[i * N + edge], 2 sectors, ideal 1; 1.5 on average (20 bytes in 2 runs)
//
// Made by cugen 0.1.0 from softmax.yaml (hash 14abdfa67b01bcfc) for sm_90. Edit the spec, not this file.

#include <math_constants.h>

constexpr int N = 257;

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

extern "C" __global__ void __launch_bounds__(128) softmax(
    const float* __restrict__ x,
    float* __restrict__ y)
{
    const int i = blockIdx.x * 4 + threadIdx.y;
    const int head = (4 - N * i % 4) % 4;
    const int edge = threadIdx.x < head ? threadIdx.x : threadIdx.x + 4 * ((N - head) / 4);

    float row_edge = 0.0f;
    if (edge < N) {
        // x[i * N + edge]: 2 sectors, ideal 1; 1.5 on average (20 bytes in 2 runs)
        row_edge = x[i * N + edge];
    }
    Vector<float, 4> row4[3];
    #pragma unroll
    for (int s = 0; s < 3; ++s) {
        const int j = threadIdx.x * 4 + head + 128 * s;
        if (j + 3 < N) {
            // x[i * N + j]: 17 sectors, ideal 16; 16.38 on average (misaligned by 16 bytes)
            row4[s] = load<4>(&x[i * N + j]);
        }
    }

    float largest = -CUDART_INF_F;
    if (edge < N) {
        largest = fmaxf(largest, row_edge);
    }
    #pragma unroll
    for (int s = 0; s < 3; ++s) {
        const int j = threadIdx.x * 4 + head + 128 * s;
        if (j + 3 < N) {
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                largest = fmaxf(largest, row4[s].data[v]);
            }
        }
    }
    #pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, lanes));
    }

    float sum = 0.0f;
    if (edge < N) {
        const float exp_value = expf(row_edge - largest);
        row_edge = exp_value;
        sum += exp_value;
    }
    #pragma unroll
    for (int s = 0; s < 3; ++s) {
        const int j = threadIdx.x * 4 + head + 128 * s;
        if (j + 3 < N) {
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                const float exp_value = expf(row4[s].data[v] - largest);
                row4[s].data[v] = exp_value;
                sum += exp_value;
            }
        }
    }
    #pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, lanes);
    }

    if (edge < N) {
        // y[i * N + edge]: 2 sectors, ideal 1; 1.5 on average (20 bytes in 2 runs)
        y[i * N + edge] = row_edge / sum;
    }
    #pragma unroll
    for (int s = 0; s < 3; ++s) {
        const int j = threadIdx.x * 4 + head + 128 * s;
        if (j + 3 < N) {
            Vector<float, 4> y4;
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                y4.data[v] = row4[s].data[v] / sum;
            }
            // y[i * N + j]: 17 sectors, ideal 16; 16.38 on average (misaligned by 16 bytes)
            store<4>(&y[i * N + j], y4);
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int M = 100;

extern "C" cudaError_t softmax_launch(
    const float* x,
    float* y,
    cudaStream_t stream)
{
    softmax<<<dim3((M + 3) / 4), dim3(32, 4), 0, stream>>>(x, y);
    return cudaGetLastError();
}

#endif
