// cumulative_sum: The running sum along each row
//
// computes  y[i, j] = cumsum(x[i, j], j)
// params    M = 50, N = 300
// x         input, float32 [50, 300]
// y         output, float32 [50, 300]
// launch    grid (1, 1, 1), block (256, 1, 1); family direct
// analysis  sm_90: 2 accesses, 2 costly
//           worst: x[i * N + j], 32 sectors, ideal 4; 25 on average (lanes 1200 bytes apart)
//
// Made by cugen 0.1.0 from cumulative_sum.yaml (hash e6ea8f5f180d3d4a) for sm_90. Edit the spec, not this file.

constexpr int M = 50;
constexpr int N = 300;

extern "C" __global__ void __launch_bounds__(256) cumulative_sum(
    const float* __restrict__ x,
    float* __restrict__ y)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= M)
        return;

    float sum = 0.0f;
    for (int j = 0; j < N; ++j) {
        // x[i * N + j]: 32 sectors, ideal 4; 25 on average (lanes 1200 bytes apart)
        const float x_i_j = x[i * N + j];
        sum += x_i_j;
        // y[i * N + j]: 32 sectors, ideal 4; 25 on average (lanes 1200 bytes apart)
        y[i * N + j] = sum;
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t cumulative_sum_launch(
    const float* x,
    float* y,
    cudaStream_t stream)
{
    cumulative_sum<<<dim3((M + 255) / 256), dim3(256), 0, stream>>>(x, y);
    return cudaGetLastError();
}

#endif
