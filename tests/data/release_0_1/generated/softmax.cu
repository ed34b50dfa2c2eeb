// softmax: The softmax of each row, safe for scores whose exp overflows
//
// computes  y[i, j] = softmax(x[i, j], j)
// params    M = 100, N = 257
// x         input, float32 [100, 257]
// y         output, float32 [100, 257]
// launch    grid (25, 1, 1), block (32, 4, 1); family rowwise
// analysis  sm_90: 4 accesses, 2 ideal, 2 costly
//           worst: x[i * N + j], 5 sectors, ideal 4; 4.87 on average (starts 4 bytes into a sector)
//
// Made by cugen 0.1.0 from softmax.yaml (hash 14abdfa67b01bcfc) for sm_90. Edit the spec, not this file.

#include <math_constants.h>

constexpr int N = 257;

extern "C" __global__ void __launch_bounds__(128) softmax(
    const float* __restrict__ x,
    float* __restrict__ y)
{
    const int i = blockIdx.x * 4 + threadIdx.y;

    float x_row[9];
    #pragma unroll
    for (int s = 0; s < 8; ++s) {
        const int j = threadIdx.x + 32 * s;
        // x[i * N + j]: 5 sectors, ideal 4; 4.87 on average (starts 4 bytes into a sector)
        x_row[s] = x[i * N + j];
    }
    if (threadIdx.x + 256 < N) {
        const int j = threadIdx.x + 256;
        // x[i * N + j]: 1 sector, ideal 1 (one address for all lanes)
        x_row[8] = x[i * N + j];
    }

    float largest = -CUDART_INF_F;
    #pragma unroll
    for (int s = 0; s < 8; ++s) {
        largest = fmaxf(largest, x_row[s]);
    }
    if (threadIdx.x + 256 < N) {
        largest = fmaxf(largest, x_row[8]);
    }
    #pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, lanes));
    }

    float sum = 0.0f;
    float exp_value_row[9];
    #pragma unroll
    for (int s = 0; s < 8; ++s) {
        const float exp_value = expf(x_row[s] - largest);
        exp_value_row[s] = exp_value;
        sum += exp_value;
    }
    if (threadIdx.x + 256 < N) {
        const float exp_value = expf(x_row[8] - largest);
        exp_value_row[8] = exp_value;
        sum += exp_value;
    }
    #pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, lanes);
    }

    #pragma unroll
    for (int s = 0; s < 8; ++s) {
        const int j = threadIdx.x + 32 * s;
        // y[i * N + j]: 5 sectors, ideal 4; 4.87 on average (starts 4 bytes into a sector)
        y[i * N + j] = exp_value_row[s] / sum;
    }
    if (threadIdx.x + 256 < N) {
        const int j = threadIdx.x + 256;
        // y[i * N + j]: 1 sector, ideal 1 (one address for all lanes)
        y[i * N + j] = exp_value_row[8] / sum;
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int M = 100;

extern "C" cudaError_t softmax_launch(
    const float* x,
    float* y,
    cudaStream_t stream)
{
    softmax<<<dim3((M + 3) / 4), dim3(32, 4), 0, stream>>>(x, y);
    return cudaGetLastError();
}

#endif
