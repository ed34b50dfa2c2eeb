// prefix_sum: The running sum of one long vector
//
// computes          y[i] = cumsum(x[i], i)
// params            N = 200003
// x                 input, float32 [200003], aligned to 16 bytes
// y                 output, float32 [200003], aligned to 16 bytes
// prefix_sum_y_sum  grid (98, 1, 1), block (512, 1, 1), 64 bytes of shared memory; family reduce
// prefix_sum_y      grid (98, 1, 1), block (128, 1, 1), 16 bytes of shared memory; family scan
// analysis          sm_90: 12 accesses, 12 ideal
//
// Made by cugen 0.1.0 from prefix_sum.yaml (hash c389108206c1fd0c) for sm_90. Edit the spec, not this file.

constexpr int N = 200003;

#ifndef CUGEN_VECTOR
#define CUGEN_VECTOR
// `count` elements that one access moves.
template <typename T, int count>
struct alignas(count * sizeof(T)) Vector {
    T at[count];
};
#endif

extern "C" __global__ void __launch_bounds__(512) prefix_sum_y_sum(
    const float* __restrict__ x,
    float* __restrict__ y_sum)
{
    const int segment = blockIdx.x;
    const int start = 2048 * segment;

    float sum = 0.0f;
    const int stop = min(2048, N - start);
    for (int i_in_segment = threadIdx.x * 4; i_in_segment < stop - 3; i_in_segment += 2048) {
        // x[start + i_in_segment]: 16 sectors, ideal 16 (512 bytes side by side)
        const auto x4 = *reinterpret_cast<const Vector<float, 4>*>(&x[start + i_in_segment]);
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            sum += x4.at[v];
        }
    }
    for (int tail = threadIdx.x + 4 * (stop / 4); tail < stop; tail += 512) {
        // x[start + tail]: 1 sector, ideal 1 (12 bytes side by side)
        const float x_value = x[start + tail];
        sum += x_value;
    }

    // A butterfly of shuffles in each warp; then the warps meet in shared memory.
    #pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, lanes);
    }
    __shared__ float warp_sum[16];
    if (threadIdx.x % 32 == 0) {
        // warp_sum[threadIdx.x / 32]: 1 wavefront, ideal 1 (all lanes in one word: a broadcast)
        warp_sum[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        // warp_sum[threadIdx.x % 16]: 1 wavefront, ideal 1 (16 words, in different banks)
        sum = warp_sum[threadIdx.x % 16];
        #pragma unroll
        for (int lanes = 8; lanes > 0; lanes /= 2) {
            sum += __shfl_xor_sync(0xffffffff, sum, lanes);
        }
    }

    if (threadIdx.x != 0)
        return;
    // y_sum[segment]: 1 sector, ideal 1 (one address for all lanes)
    y_sum[segment] = sum;
}

extern "C" __global__ void __launch_bounds__(128) prefix_sum_y(
    const float* __restrict__ x,
    float* __restrict__ y,
    const float* __restrict__ y_sum)
{
    const int segment = blockIdx.x;
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;

    __shared__ float warp_sums[4];

    // What the segments in front combine to; every warp does it for itself.
    float sum_of_segments = 0.0f;
    #pragma unroll 8
    for (int earlier = lane; earlier < (N + 2047) / 2048; earlier += 32) {
        if (earlier < segment) {
            // y_sum[earlier]: 4 sectors, ideal 4 (128 bytes side by side)
            const float y_sum_segment_ = y_sum[earlier];
            sum_of_segments += y_sum_segment_;
        }
    }
    #pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        sum_of_segments += __shfl_xor_sync(0xffffffff, sum_of_segments, lanes);
    }
    Vector<float, 4> x4[4] = {};
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
        const int first = 2048 * segment + 4 * lane + 512 * warp + 128 * u;
        if (first < N) {
            if (first + 3 < N) {
                // x[first]: 16 sectors, ideal 16 (512 bytes side by side)
                x4[u] = *reinterpret_cast<const Vector<float, 4>*>(&x[first]);
            } else {
                #pragma unroll
                for (int v = 0; v < 4; ++v) {
                    if (first + v < N) {
                        // x[first + v]: 1 sector, ideal 1 (one address for all lanes)
                        x4[u].at[v] = x[first + v];
                    }
                }
            }
        }
    }
    // What comes before each vector in the stretch of its warp.
    float sum_before[4];
    float warp_sum = 0.0f;
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
        float own_sum = 0.0f;
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            own_sum += x4[u].at[v];
        }
        float lower_sum;
        #pragma unroll
        for (int reach = 1; reach < 32; reach *= 2) {
            lower_sum = __shfl_up_sync(0xffffffff, own_sum, reach);
            own_sum = lane >= reach ? lower_sum + own_sum : own_sum;
        }
        lower_sum = __shfl_up_sync(0xffffffff, own_sum, 1);
        sum_before[u] = lane >= 1 ? warp_sum + lower_sum : warp_sum;
        warp_sum += __shfl_sync(0xffffffff, own_sum, 31);
    }
    // What the warps in front combine to.
    if (lane == 0) {
        // warp_sums[warp]: 1 wavefront, ideal 1 (all lanes in one word: a broadcast)
        warp_sums[warp] = warp_sum;
    }
    __syncthreads();
    float sum_in_front = 0.0f;
    float sum_so_far = 0.0f;
    #pragma unroll
    for (int w = 0; w < 4; ++w) {
        if (w == warp) {
            sum_in_front = sum_so_far;
        }
        // warp_sums[w]: 1 wavefront, ideal 1 (all lanes in one word: a broadcast)
        sum_so_far += warp_sums[w];
    }
    // The running values, element by element.
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
        const int first = 2048 * segment + 4 * lane + 512 * warp + 128 * u;
        float sum = sum_in_front + sum_before[u];
        if (first < N) {
            Vector<float, 4> y4;
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                sum += x4[u].at[v];
                y4.at[v] = sum_of_segments + sum;
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
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" size_t prefix_sum_workspace_bytes(void)
{
    return 256LL * ((4 * ((N + 2047) / 2048) + 255) / 256);
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
    float* const y_sum = reinterpret_cast<float*>(static_cast<char*>(workspace) + 0);
    prefix_sum_y_sum<<<dim3((N + 2047) / 2048), dim3(512), 0, stream>>>(x, y_sum);
    prefix_sum_y<<<dim3((N + 2047) / 2048), dim3(128), 0, stream>>>(x, y, y_sum);
    if (memory == nullptr)
        cudaFreeAsync(workspace, stream);
    return cudaGetLastError();
}

#endif
