// prefix_sum: The running sum of one long vector
//
// computes  y[i] = cumsum(x[i], i)
// params    N = 200003
// x         input, float32 [200003], aligned to 16 bytes
// y         output, float32 [200003], aligned to 16 bytes
// launch    grid (196, 1, 1), block (256, 1, 1), 80 bytes of shared memory; family scan
// bounds    15 of 15 accesses proved
// analysis  sm_90: 15 accesses, 11 ideal, 1 costly, 2 assumed, 1 unknown
//           worst: y_sums[predecessor], 2 sectors, ideal 1; 3.58 on average (misaligned by 4 bytes)
//
// Made by cugen 0.1.0 from prefix_sum.yaml (hash ee7a70f666d5182d) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   shared_block_id                         1 wavefront, ideal 1 (one word: broadcast), at 2 places
//   x[first]                                16 sectors, ideal 16 (512 contiguous bytes)
//   x[first + v]                            1 sector, ideal 1 (uniform address)
//   warp_sums[warp]                         1 wavefront, ideal 1 (one word: broadcast)
//   warp_sums[w]                            1 wavefront, ideal 1 (one word: broadcast)
//   y_sums[block_id + 1]                    1 sector, ideal 1 (uniform address)
//   warp_tile_prefix_sum[threadIdx.x / 32]  1 wavefront, ideal 1 (one word: broadcast)
//   warp_tile_prefix_sum[threadIdx.x % 8]   1 wavefront, ideal 1 (conflict-free)
//   y[first]                                16 sectors, ideal 16 (512 contiguous bytes)
//   y[first + v]                            1 sector, ideal 1 (uniform address)

constexpr int N = 200003;

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

extern "C" __global__ void __launch_bounds__(256, 4) prefix_sum(
    const float* __restrict__ x,
    float* __restrict__ y,
    int* y_flags,
    float* y_sums)
{
    __shared__ int shared_block_id;
    if (threadIdx.x == 0) {
        // y_flags[0]: assumed: 1 sector, ideal 1 (uniform address)
        shared_block_id = atomicAdd(&y_flags[0], 1);
    }
    __syncthreads();
    const int block_id = shared_block_id;
    const int tile = block_id;
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;

    __shared__ __align__(16) float warp_sums[8];

    Vector<float, 4> x4 = {};
    const int first = 1024 * tile + 4 * lane + 128 * warp;
    if (first < N) {
        if (first + 3 < N) {
            x4 = load<4>(&x[first]);
        } else {
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                if (first + v < N) {
                    x4.data[v] = x[first + v];
                }
            }
        }
    }
    // exclusive prefix of each vector within its warp
    float inclusive_sum = 0.0f;
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        inclusive_sum += x4.data[v];
    }
    float exclusive_sum;
    #pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        exclusive_sum = __shfl_up_sync(0xffffffff, inclusive_sum, distance);
        inclusive_sum = lane >= distance ? exclusive_sum + inclusive_sum : inclusive_sum;
    }
    exclusive_sum = __shfl_up_sync(0xffffffff, inclusive_sum, 1);
    const float sum_before = lane >= 1 ? exclusive_sum : 0.0f;
    const float warp_sum = __shfl_sync(0xffffffff, inclusive_sum, 31);
    // exclusive prefix of the warp, from the totals of the preceding warps
    if (lane == 0) {
        warp_sums[warp] = warp_sum;
    }
    __syncthreads();
    float preceding_sum = 0.0f;
    float sum_so_far = 0.0f;
    #pragma unroll
    for (int w = 0; w < 8; ++w) {
        if (w == warp) {
            preceding_sum = sum_so_far;
        }
        sum_so_far += warp_sums[w];
    }
    // decoupled look-back: publish the tile's aggregate, then reduce those of the preceding tiles
    if (threadIdx.x == 255) {
        y_sums[block_id + 1] = sum_so_far;
        __threadfence();
        // y_flags[block_id + 1]: assumed: 1 sector, ideal 1 (uniform address)
        atomicExch(&y_flags[block_id + 1], 1);
    }
    float tile_prefix_sum = 0.0f;
    if (threadIdx.x > 0 && threadIdx.x <= block_id) {
        const int predecessor = threadIdx.x;
        // y_flags[predecessor]: unknown: the number of polls of a spin-wait is not static
        while (__ldcv(&y_flags[predecessor]) != 1)
            __nanosleep(32);
        __threadfence();
        // y_sums[predecessor]: 2 sectors, ideal 1; 3.58 on average (misaligned by 4 bytes)
        tile_prefix_sum = y_sums[predecessor];
    }
    #pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        tile_prefix_sum += __shfl_xor_sync(0xffffffff, tile_prefix_sum, lanes);
    }
    __shared__ float warp_tile_prefix_sum[8];
    if (threadIdx.x % 32 == 0) {
        warp_tile_prefix_sum[threadIdx.x / 32] = tile_prefix_sum;
    }
    __syncthreads();
    tile_prefix_sum = warp_tile_prefix_sum[threadIdx.x % 8];
    #pragma unroll
    for (int lanes = 4; lanes > 0; lanes /= 2) {
        tile_prefix_sum += __shfl_xor_sync(0xffffffff, tile_prefix_sum, lanes);
    }
    preceding_sum = tile_prefix_sum + preceding_sum;
    // scan of each vector, and the results
    float sum = preceding_sum + sum_before;
    if (first < N) {
        Vector<float, 4> y4;
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            sum += x4.data[v];
            y4.data[v] = sum;
        }
        if (first + 3 < N) {
            store<4>(&y[first], y4);
        } else {
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                if (first + v < N) {
                    y[first + v] = y4.data[v];
                }
            }
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" size_t prefix_sum_workspace_bytes(void)
{
    return 512 * ((4 * ((N + 1023) / 1024) + 259) / 256);
}

extern "C" cudaError_t prefix_sum_launch(
    const float* x,
    float* y,
    void* workspace,
    cudaStream_t stream)
{
    cudaError_t status = cudaSuccess;
    const bool allocates = workspace == nullptr;
    if (allocates)
        status = cudaMallocAsync(&workspace, prefix_sum_workspace_bytes(), stream);
    if (status != cudaSuccess)
        return status;
    int* const y_flags = static_cast<int*>(workspace);
    float* const y_sums =
        reinterpret_cast<float*>(static_cast<char*>(workspace) + 256 * ((4 * ((N + 1023) / 1024) + 259) / 256));
    cudaMemsetAsync(y_flags, 0, 4 * ((N + 1023) / 1024) + 4, stream);
    prefix_sum<<<dim3((N + 1023) / 1024), dim3(256), 0, stream>>>(x, y, y_flags, y_sums);
    if (allocates)
        cudaFreeAsync(workspace, stream);
    return cudaGetLastError();
}

#endif
