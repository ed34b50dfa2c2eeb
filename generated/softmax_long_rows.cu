// softmax_long_rows: The softmax of rows that a cluster of four blocks shares, through each other's shared memory
//
// computes  y[i, j] = softmax(x[i, j], j)
// params    M = 9, N = 40000
// x         input, float32 [9, 40000], aligned to 16 bytes
// y         output, float32 [9, 40000], aligned to 16 bytes
// launch    grid (36, 1, 1), block (512, 1, 1), clusters of 4, 160 bytes of shared memory; family rowwise
// bounds    14 of 14 accesses proved
// analysis  sm_90: 14 accesses, 12 ideal, 2 unknown
//
// Made by cugen 0.1.0 from softmax_long_rows.yaml (hash 45e763aad7b0e395) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   x[i * N + j]                    16 sectors, ideal 16 (512 contiguous bytes), at 2 places
//   warp_largest[threadIdx.x / 32]  1 wavefront, ideal 1 (one word: broadcast)
//   warp_largest[threadIdx.x % 16]  1 wavefront, ideal 1 (conflict-free)
//   block_largest[0]                1 wavefront, ideal 1 (one word: broadcast)
//   block_largest[block]            1 wavefront, ideal 1 (one word: broadcast)
//   warp_sum[threadIdx.x / 32]      1 wavefront, ideal 1 (one word: broadcast)
//   warp_sum[threadIdx.x % 16]      1 wavefront, ideal 1 (conflict-free)
//   block_sum[0]                    1 wavefront, ideal 1 (one word: broadcast)
//   block_sum[block]                1 wavefront, ideal 1 (one word: broadcast)
//   y[i * N + j]                    16 sectors, ideal 16 (512 contiguous bytes), at 2 places

#include <cooperative_groups.h>
#include <math_constants.h>

constexpr int N = 40000;

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

extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(512) softmax_long_rows(
    const float* __restrict__ x,
    float* __restrict__ y)
{
    const auto cluster = cooperative_groups::this_cluster();
    const int i = blockIdx.x / 4;
    const int rank = blockIdx.x % 4;
    const int thread = threadIdx.x + 512 * rank;
    cluster.barrier_arrive();

    Vector<float, 4> row4[5];
    #pragma unroll
    for (int s = 0; s < 4; ++s) {
        const int j = 4 * thread + 8192 * s;
        row4[s] = load<4>(&x[i * N + j]);
    }
    if (4 * thread + 32768 < N) {
        const int j = 4 * thread + 32768;
        row4[4] = load<4>(&x[i * N + j]);
    }

    float largest = -CUDART_INF_F;
    #pragma unroll
    for (int s = 0; s < 4; ++s) {
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            largest = fmaxf(largest, row4[s].data[v]);
        }
    }
    if (4 * thread + 32768 < N) {
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            largest = fmaxf(largest, row4[4].data[v]);
        }
    }
    #pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, lanes));
    }
    __shared__ float warp_largest[16];
    if (threadIdx.x % 32 == 0) {
        warp_largest[threadIdx.x / 32] = largest;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        largest = warp_largest[threadIdx.x % 16];
        #pragma unroll
        for (int lanes = 8; lanes > 0; lanes /= 2) {
            largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, lanes));
        }
    }
    cluster.barrier_wait();
    __shared__ float block_largest[4];
    if (threadIdx.x < 4) {
        // cluster.map_shared_rank(block_largest, threadIdx.x)[rank]: unknown: distributed shared memory is not modelled
        cluster.map_shared_rank(block_largest, threadIdx.x)[rank] = largest;
    }
    cluster.sync();
    largest = block_largest[0];
    #pragma unroll
    for (int block = 1; block < 4; ++block) {
        largest = fmaxf(largest, block_largest[block]);
    }

    float sum = 0.0f;
    #pragma unroll
    for (int s = 0; s < 4; ++s) {
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            const float exp_value = expf(row4[s].data[v] - largest);
            row4[s].data[v] = exp_value;
            sum += exp_value;
        }
    }
    if (4 * thread + 32768 < N) {
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            const float exp_value = expf(row4[4].data[v] - largest);
            row4[4].data[v] = exp_value;
            sum += exp_value;
        }
    }
    #pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, lanes);
    }
    __shared__ float warp_sum[16];
    if (threadIdx.x % 32 == 0) {
        warp_sum[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = warp_sum[threadIdx.x % 16];
        #pragma unroll
        for (int lanes = 8; lanes > 0; lanes /= 2) {
            sum += __shfl_xor_sync(0xffffffff, sum, lanes);
        }
    }
    __shared__ float block_sum[4];
    if (threadIdx.x < 4) {
        // cluster.map_shared_rank(block_sum, threadIdx.x)[rank]: unknown: distributed shared memory is not modelled
        cluster.map_shared_rank(block_sum, threadIdx.x)[rank] = sum;
    }
    cluster.sync();
    sum = block_sum[0];
    #pragma unroll
    for (int block = 1; block < 4; ++block) {
        sum += block_sum[block];
    }

    #pragma unroll
    for (int s = 0; s < 4; ++s) {
        const int j = 4 * thread + 8192 * s;
        Vector<float, 4> y4;
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            y4.data[v] = row4[s].data[v] / sum;
        }
        store<4>(&y[i * N + j], y4);
    }
    if (4 * thread + 32768 < N) {
        const int j = 4 * thread + 32768;
        Vector<float, 4> y4;
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            y4.data[v] = row4[4].data[v] / sum;
        }
        store<4>(&y[i * N + j], y4);
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int M = 9;

extern "C" cudaError_t softmax_long_rows_launch(
    const float* x,
    float* y,
    cudaStream_t stream)
{
    softmax_long_rows<<<dim3(4 * M), dim3(512), 0, stream>>>(x, y);
    return cudaGetLastError();
}

#endif
