// ladder_1_naive: step 1: one thread per output, which loads its row of A and its column of B from global memory
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 256, N = 256, K = 256
// A         input, float32 [256, 256]
// B         input, float32 [256, 256]
// C         output, float32 [256, 256]
// launch    grid (256, 1, 1), block (1, 256, 1); family direct
// bounds    3 of 3 accesses proved
// analysis  sm_90: 3 accesses, 1 ideal, 2 costly
//           worst: A[m * K + k], 32 sectors, ideal 4 (lanes 1024 bytes apart)
//
// Made by cugen 0.1.0 from product_ladder.yaml (hash 90ec286a001f4865) for sm_90. Edit the spec, not this file.

constexpr int N = 256;
constexpr int K = 256;

extern "C" __global__ void __launch_bounds__(256) ladder_1_naive(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C)
{
    const int m = blockIdx.y * 256 + threadIdx.y;
    const int n = blockIdx.x;

    float sum = 0.0f;
    for (int k = 0; k < K; ++k) {
        // A[m * K + k]: 32 sectors, ideal 4 (lanes 1024 bytes apart)
        const float a = A[m * K + k];
        // B[k * N + n]: 1 sector, ideal 1 (uniform address)
        const float b = B[k * N + n];
        sum += a * b;
    }
    // C[m * N + n]: 32 sectors, ideal 4 (lanes 1024 bytes apart)
    C[m * N + n] = sum;
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int M = 256;

extern "C" cudaError_t ladder_1_naive_launch(
    const float* A,
    const float* B,
    float* C,
    cudaStream_t stream)
{
    ladder_1_naive<<<dim3(N, (M + 255) / 256), dim3(1, 256), 0, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
