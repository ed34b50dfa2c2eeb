// argmax: Where each row is greatest; the first place of several, and a NaN before all
//
// computes  best[i] = argmax(x[i, j], j)
// params    M = 200, N = 333
// x         input, float32 [200, 333]
// best      output, int64 [200]
// launch    grid (1, 1, 1), block (256, 1, 1); family direct
// analysis  sm_90: 2 accesses, 1 ideal, 1 costly
//           worst: x[i * N + j], 32 sectors, ideal 4; 28.57 on average (lanes 1332 bytes apart)
//
// Made by cugen 0.1.0 from argmax.yaml (hash fc56195d3d6c3d61) for sm_90. Edit the spec, not this file.

constexpr int M = 200;
constexpr int N = 333;

extern "C" __global__ void __launch_bounds__(256) argmax(
    const float* __restrict__ x,
    long long* __restrict__ best)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= M)
        return;

    long long argmax_ = -1;
    float largest = 0.0f;
    for (int j = 0; j < N; ++j) {
        // x[i * N + j]: 32 sectors, ideal 4; 28.57 on average (lanes 1332 bytes apart)
        const float x_i_j = x[i * N + j];
        if (argmax_ < 0 || x_i_j > largest || (x_i_j != x_i_j && largest == largest)) {
            largest = x_i_j;
            argmax_ = j;
        }
    }
    // best[i]: 8 sectors, ideal 8 (256 bytes side by side)
    best[i] = argmax_;
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t argmax_launch(
    const float* x,
    long long* best,
    cudaStream_t stream)
{
    argmax<<<dim3((M + 255) / 256), dim3(256), 0, stream>>>(x, best);
    return cudaGetLastError();
}

#endif
