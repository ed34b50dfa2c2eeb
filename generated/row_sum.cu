// row_sum: The sum of each row
//
// computes  y[i] = sum(x[i, j], j)
// params    M = 300, N = 513
// x         input, float32 [300, 513]
// y         output, float32 [300]
// launch    grid (300, 1, 1), block (1024, 1, 1), 128 bytes of shared memory; family reduce
// analysis  sm_90: 4 accesses, 3 ideal, 1 costly
//           worst: x[i * N + j], 5 sectors, ideal 4; 4.65 on average (misaligned by 4 bytes)
//
// Made by cugen 0.1.0 from row_sum.yaml (hash c40e7c72b7405143) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   warp_sum[threadIdx.x / 32]  1 wavefront, ideal 1 (one word: broadcast)
//   warp_sum[threadIdx.x % 32]  1 wavefront, ideal 1 (conflict-free)
//   y[i]                        1 sector, ideal 1 (uniform address)

constexpr int N = 513;

extern "C" __global__ void __launch_bounds__(1024) row_sum(
    const float* __restrict__ x,
    float* __restrict__ y)
{
    const int i = blockIdx.x;

    float sum = 0.0f;
    for (int j = threadIdx.x; j < N; j += 1024) {
        // x[i * N + j]: 5 sectors, ideal 4; 4.65 on average (misaligned by 4 bytes)
        const float x_i_j = x[i * N + j];
        sum += x_i_j;
    }

    // Block reduction: warp shuffles, then shared memory between warps.
    #pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, lanes);
    }
    __shared__ float warp_sum[32];
    if (threadIdx.x % 32 == 0) {
        warp_sum[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = warp_sum[threadIdx.x % 32];
        #pragma unroll
        for (int lanes = 16; lanes > 0; lanes /= 2) {
            sum += __shfl_xor_sync(0xffffffff, sum, lanes);
        }
    }

    if (threadIdx.x != 0)
        return;
    y[i] = sum;
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int M = 300;

extern "C" cudaError_t row_sum_launch(
    const float* x,
    float* y,
    cudaStream_t stream)
{
    row_sum<<<dim3(M), dim3(1024), 0, stream>>>(x, y);
    return cudaGetLastError();
}

#endif
