// full_sum: The sum of all elements
//
// computes  total = sum(x[i], i)
// params    N = 100003
// x         input, float32 [100003]
// total     output, float32 []
// launch    grid (1, 1, 1), block (1024, 1, 1), 256 bytes of shared memory; family reduce
// analysis  sm_90: 4 accesses, 4 ideal
//
// Made by cugen 0.1.0 from full_sum.yaml (hash 64b8169916d00d7e) for sm_90. Edit the spec, not this file.

constexpr int N = 100003;

extern "C" __global__ void __launch_bounds__(1024) full_sum(
    const float* __restrict__ x,
    float* __restrict__ total)
{
    double sum = 0.0;
    for (int i = threadIdx.x; i < N; i += 1024) {
        // x[i]: 4 sectors, ideal 4 (128 bytes side by side)
        const float x_i = x[i];
        sum += (double)x_i;
    }

    // A butterfly of shuffles: after it every lane holds the result of its warp.
    sum += __shfl_xor_sync(0xffffffff, sum, 16);
    sum += __shfl_xor_sync(0xffffffff, sum, 8);
    sum += __shfl_xor_sync(0xffffffff, sum, 4);
    sum += __shfl_xor_sync(0xffffffff, sum, 2);
    sum += __shfl_xor_sync(0xffffffff, sum, 1);

    // The warps meet in shared memory, where the first thread combines their results in order.
    __shared__ double warp_results[32];
    if (threadIdx.x % 32 == 0) {
        // warp_results[threadIdx.x / 32]: 1 wavefront, ideal 1 (2 words, in different banks)
        warp_results[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    for (int warp = 1; warp < 32; ++warp) {
        // warp_results[warp]: 1 wavefront, ideal 1 (2 words, in different banks)
        sum += warp_results[warp];
    }

    // total[0]: 1 sector, ideal 1 (one address for all lanes)
    total[0] = (float)sum;
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t full_sum_launch(
    const float* x,
    float* total,
    cudaStream_t stream)
{
    full_sum<<<dim3(1), dim3(1024), 0, stream>>>(x, total);
    return cudaGetLastError();
}

#endif
