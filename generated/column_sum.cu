// column_sum: The sum of each column
//
// computes  y[j] = sum(x[i, j], i)
// params    M = 513, N = 300
// x         input, float32 [513, 300]
// y         output, float32 [300]
// launch    grid (2, 1, 1), block (256, 1, 1); family direct
// analysis  sm_90: 2 accesses, 1 ideal, 1 costly
//           worst: x[i * N + j], 5 sectors, ideal 4; 4.25 on average (starts 16 bytes into a sector)
//
// Made by cugen 0.1.0 from column_sum.yaml (hash c35375f5e4ee601d) for sm_90. Edit the spec, not this file.

constexpr int M = 513;
constexpr int N = 300;

extern "C" __global__ void __launch_bounds__(256) column_sum(
    const float* __restrict__ x,
    float* __restrict__ y)
{
    const int j = blockIdx.x * 256 + threadIdx.x;
    if (j >= N)
        return;

    float sum = 0.0f;
    for (int i = 0; i < M; ++i) {
        // x[i * N + j]: 5 sectors, ideal 4; 4.25 on average (starts 16 bytes into a sector)
        const float x_i_j = x[i * N + j];
        sum += x_i_j;
    }
    // y[j]: 4 sectors, ideal 4 (128 bytes side by side)
    y[j] = sum;
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t column_sum_launch(
    const float* x,
    float* y,
    cudaStream_t stream)
{
    column_sum<<<dim3((N + 255) / 256), dim3(256), 0, stream>>>(x, y);
    return cudaGetLastError();
}

#endif
