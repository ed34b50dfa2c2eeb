// row_sum: The sum of each row
//
// computes  y[i] = sum(x[i, j], j)
// params    M = 300, N = 513
// x         input, float32 [300, 513]
// y         output, float32 [300]
// launch    grid (2, 1, 1), block (256, 1, 1); family direct
// analysis  sm_90: 2 accesses, 1 ideal, 1 costly
//           worst: x[i * N + j], 32 sectors, ideal 4; 30 on average (lanes 2052 bytes apart)
//
// Made by cugen 0.1.0 from row_sum.yaml (hash c40e7c72b7405143) for sm_90. Edit the spec, not this file.

constexpr int M = 300;
constexpr int N = 513;

extern "C" __global__ void __launch_bounds__(256) row_sum(
    const float* __restrict__ x,
    float* __restrict__ y)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= M)
        return;

    float sum = 0.0f;
    for (int j = 0; j < N; ++j) {
        // x[i * N + j]: 32 sectors, ideal 4; 30 on average (lanes 2052 bytes apart)
        const float x_i_j = x[i * N + j];
        sum += x_i_j;
    }
    // y[i]: 4 sectors, ideal 4 (128 bytes side by side)
    y[i] = sum;
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t row_sum_launch(
    const float* x,
    float* y,
    cudaStream_t stream)
{
    row_sum<<<dim3((M + 255) / 256), dim3(256), 0, stream>>>(x, y);
    return cudaGetLastError();
}

#endif
