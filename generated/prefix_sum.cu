// prefix_sum: The running sum of one long vector
//
// computes  y[i] = cumsum(x[i], i)
// params    N = 200003
// x         input, float32 [200003], aligned to 16 bytes
// y         output, float32 [200003], aligned to 16 bytes
// launch    grid (196, 1, 1), block (256, 1, 1), 80 bytes of shared memory; family scan
// analysis  sm_90: 15 accesses, 11 ideal, 1 costly, 2 assumed, 1 unknown
//           worst: y_sums[earlier], 2 sectors, ideal 1; 3.58 on average (starts 4 bytes into a sector)
//
// Made by cugen 0.1.0 from prefix_sum.yaml (hash 161520c422010008) for sm_90. Edit the spec, not this file.

constexpr int N = 200003;

#ifndef CUGEN_VECTOR
#define CUGEN_VECTOR
// `count` elements that one access moves.
template <typename T, int count>
struct alignas(count * sizeof(T)) Vector {
    T at[count];
};
#endif

extern "C" __global__ void __launch_bounds__(256, 4) prefix_sum(
    const float* __restrict__ x,
    float* __restrict__ y,
    int* y_flags,
    float* y_sums)
{
    __shared__ int ticket_of_block;
    if (threadIdx.x == 0) {
        // ticket_of_block: 1 wavefront, ideal 1 (all lanes in one word: a broadcast)
        // y_flags[0]: assumed: 1 sector, ideal 1 (one address for all lanes)
        ticket_of_block = atomicAdd(&y_flags[0], 1);
    }
    __syncthreads();
    // ticket_of_block: 1 wavefront, ideal 1 (all lanes in one word: a broadcast)
    const int ticket = ticket_of_block;
    const int segment = ticket;
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;

    __shared__ __align__(16) float warp_sums[8];

    Vector<float, 4> x4 = {};
    const int first = 1024 * segment + 4 * lane + 128 * warp;
    if (first < N) {
        if (first + 3 < N) {
            // x[first]: 16 sectors, ideal 16 (512 bytes side by side)
            x4 = *reinterpret_cast<const Vector<float, 4>*>(&x[first]);
        } else {
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                if (first + v < N) {
                    // x[first + v]: 1 sector, ideal 1 (one address for all lanes)
                    x4.at[v] = x[first + v];
                }
            }
        }
    }
    // What comes before each vector in the stretch of its warp.
    float sum_before;
    float warp_sum = 0.0f;
    float own_sum = 0.0f;
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        own_sum += x4.at[v];
    }
    float lower_sum;
    #pragma unroll
    for (int reach = 1; reach < 32; reach *= 2) {
        lower_sum = __shfl_up_sync(0xffffffff, own_sum, reach);
        own_sum = lane >= reach ? lower_sum + own_sum : own_sum;
    }
    lower_sum = __shfl_up_sync(0xffffffff, own_sum, 1);
    sum_before = lane >= 1 ? warp_sum + lower_sum : warp_sum;
    warp_sum += __shfl_sync(0xffffffff, own_sum, 31);
    // What the warps in front combine to.
    if (lane == 0) {
        // warp_sums[warp]: 1 wavefront, ideal 1 (all lanes in one word: a broadcast)
        warp_sums[warp] = warp_sum;
    }
    __syncthreads();
    float sum_in_front = 0.0f;
    float sum_so_far = 0.0f;
    #pragma unroll
    for (int w = 0; w < 8; ++w) {
        if (w == warp) {
            sum_in_front = sum_so_far;
        }
        // warp_sums[w]: 1 wavefront, ideal 1 (all lanes in one word: a broadcast)
        sum_so_far += warp_sums[w];
    }
    // The block tells what its segment combines to, and awaits what those before it do.
    if (threadIdx.x == 255) {
        // y_sums[ticket + 1]: 1 sector, ideal 1 (one address for all lanes)
        y_sums[ticket + 1] = sum_so_far;
        // y_flags[ticket + 1]: assumed: 1 sector, ideal 1 (one address for all lanes)
        __threadfence();
        atomicExch(&y_flags[ticket + 1], 1);
    }
    float earlier_sum = 0.0f;
    if (threadIdx.x > 0 && threadIdx.x <= ticket) {
        const int earlier = threadIdx.x;
        // y_flags[earlier]: unknown: how often it asks depends on when another block answers
        while (__ldcv(&y_flags[earlier]) != 1)
            __nanosleep(32);
        __threadfence();
        // y_sums[earlier]: 2 sectors, ideal 1; 3.58 on average (starts 4 bytes into a sector)
        earlier_sum = y_sums[earlier];
    }
    #pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        earlier_sum += __shfl_xor_sync(0xffffffff, earlier_sum, lanes);
    }
    __shared__ float warp_earlier_sum[8];
    if (threadIdx.x % 32 == 0) {
        // warp_earlier_sum[threadIdx.x / 32]: 1 wavefront, ideal 1 (all lanes in one word: a broadcast)
        warp_earlier_sum[threadIdx.x / 32] = earlier_sum;
    }
    __syncthreads();
    // warp_earlier_sum[threadIdx.x % 8]: 1 wavefront, ideal 1 (8 words, in different banks)
    earlier_sum = warp_earlier_sum[threadIdx.x % 8];
    #pragma unroll
    for (int lanes = 4; lanes > 0; lanes /= 2) {
        earlier_sum += __shfl_xor_sync(0xffffffff, earlier_sum, lanes);
    }
    sum_in_front = earlier_sum + sum_in_front;
    // The running values, element by element.
    float sum = sum_in_front + sum_before;
    if (first < N) {
        Vector<float, 4> y4;
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            sum += x4.at[v];
            y4.at[v] = sum;
        }
        if (first + 3 < N) {
            // y[first]: 16 sectors, ideal 16 (512 bytes side by side)
            *reinterpret_cast<Vector<float, 4>*>(&y[first]) = y4;
        } else {
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                if (first + v < N) {
                    // y[first + v]: 1 sector, ideal 1 (one address for all lanes)
                    y[first + v] = y4.at[v];
                }
            }
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" size_t prefix_sum_workspace_bytes(void)
{
    return 512LL * ((4 * ((N + 1023) / 1024) + 259) / 256);
}

extern "C" cudaError_t prefix_sum_launch(
    const float* x,
    float* y,
    void* workspace,
    cudaStream_t stream)
{
    cudaError_t status = cudaSuccess;
    void* const memory = workspace;
    if (memory == nullptr)
        status = cudaMallocAsync(&workspace, prefix_sum_workspace_bytes(), stream);
    if (status != cudaSuccess)
        return status;
    int* const y_flags = reinterpret_cast<int*>(static_cast<char*>(workspace) + 0);
    float* const y_sums = reinterpret_cast<float*>(static_cast<char*>(workspace)
        + 256LL * ((4 * ((N + 1023) / 1024) + 259) / 256));
    cudaMemsetAsync(y_flags, 0, 4LL * ((N + 1023) / 1024) + 4, stream);
    prefix_sum<<<dim3((N + 1023) / 1024), dim3(256), 0, stream>>>(x, y, y_flags, y_sums);
    if (memory == nullptr)
        cudaFreeAsync(workspace, stream);
    return cudaGetLastError();
}

#endif
