// transpose_naive: B = Aᵀ without shared memory; the stores are contiguous, and each read of a
// warp falls into another sector
//
// computes  B[n, m] = A[m, n]
// params    M = 300, N = 200
// A         input, float32 [300, 200]
// B         output, float32 [200, 300]
// launch    grid (10, 25, 1), block (32, 8, 1); family direct
// bounds    2 of 2 accesses proved
// analysis  sm_90: 2 accesses, 2 costly
//           worst: A[m * N + n], 32 sectors, ideal 4; 30 on average (lanes 800 bytes apart)
//
// Made by cugen 0.1.0 from transpose_naive.yaml (hash 1f0949c4bd098189) for sm_90. Edit the spec, not this file.

constexpr int M = 300;
constexpr int N = 200;

extern "C" __global__ void __launch_bounds__(256) transpose_naive(
    const float* __restrict__ A,
    float* __restrict__ B)
{
    const int n = blockIdx.y * 8 + threadIdx.y;
    const int m = blockIdx.x * 32 + threadIdx.x;
    if (m >= M)
        return;

    // A[m * N + n]: 32 sectors, ideal 4; 30 on average (lanes 800 bytes apart)
    const float a = A[m * N + n];
    // B[n * M + m]: 5 sectors, ideal 4; 4.25 on average (misaligned by 16 bytes)
    B[n * M + m] = a;
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t transpose_naive_launch(
    const float* A,
    float* B,
    cudaStream_t stream)
{
    transpose_naive<<<dim3((M + 31) / 32, (N + 7) / 8), dim3(32, 8), 0, stream>>>(A, B);
    return cudaGetLastError();
}

#endif
