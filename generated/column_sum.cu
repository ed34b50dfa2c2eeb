// column_sum: The sum of each column
//
// computes  y[j] = sum(x[i, j], i)
// params    M = 513, N = 300
// x         input, float32 [513, 300], aligned to 16 bytes
// y         output, float32 [300], aligned to 16 bytes
// launch    grid (10, 1, 1), block (8, 64, 1), 8192 bytes of shared memory; family reduce
// bounds    4 of 4 accesses proved
// analysis  sm_90: 4 accesses, 3 ideal, 1 costly
//           worst: x[i * N + first_j], 18 sectors, ideal 16; 16.9 on average (512 bytes in 4 runs)
//
// Made by cugen 0.1.0 from column_sum.yaml (hash c35375f5e4ee601d) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   sum_partials[v][threadIdx.y][threadIdx.x]  1 wavefront, ideal 1 (conflict-free)
//   sum_partials[v][row][threadIdx.x]          1 wavefront, ideal 1 (conflict-free)
//   y[first_j]                                 4 sectors, ideal 4 (128 contiguous bytes)

constexpr int M = 513;
constexpr int N = 300;

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

extern "C" __global__ void __launch_bounds__(512) column_sum(
    const float* __restrict__ x,
    float* __restrict__ y)
{
    const int first_j = blockIdx.x * 32 + threadIdx.x * 4;

    Vector<float, 4> sum4 = {};
    if (first_j < N) {
        #pragma unroll 4
        for (int i = threadIdx.y; i < M; i += 64) {
            // x[i * N + first_j]: 18 sectors, ideal 16; 16.9 on average (512 bytes in 4 runs)
            const auto x4 = load<4>(&x[i * N + first_j]);
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                sum4.data[v] += x4.data[v];
            }
        }
    }

    // block reduction over threadIdx.y through shared memory, in a fixed order
    __shared__ float sum_partials[4][64][8];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        sum_partials[v][threadIdx.y][threadIdx.x] = sum4.data[v];
    }
    __syncthreads();
    if (threadIdx.y != 0 || first_j >= N)
        return;
    for (int row = 1; row < 64; ++row) {
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            sum4.data[v] += sum_partials[v][row][threadIdx.x];
        }
    }

    store<4>(&y[first_j], sum4);
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t column_sum_launch(
    const float* x,
    float* y,
    cudaStream_t stream)
{
    column_sum<<<dim3((N + 31) / 32), dim3(8, 64), 0, stream>>>(x, y);
    return cudaGetLastError();
}

#endif
