// matmul_naive: C = A·B; a thread computes one element and reads a row of A and a column of B from global memory
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 128, K = 96, N = 160
// A         input, float32 [128, 96]
// B         input, float32 [96, 160]
// C         output, float32 [128, 160]
// launch    grid (5, 16, 1), block (32, 8, 1); family direct
// bounds    3 of 3 accesses proved
// analysis  sm_90: 3 accesses, 3 ideal
//
// Made by cugen 0.1.0 from matmul_naive.yaml (hash fca00ad20e41979a) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   A[m * K + k]  1 sector, ideal 1 (uniform address)
//   B[k * N + n]  4 sectors, ideal 4 (128 contiguous bytes)
//   C[m * N + n]  4 sectors, ideal 4 (128 contiguous bytes)

constexpr int K = 96;
constexpr int N = 160;

extern "C" __global__ void __launch_bounds__(256) matmul_naive(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C)
{
    const int m = blockIdx.y * 8 + threadIdx.y;
    const int n = blockIdx.x * 32 + threadIdx.x;

    float sum = 0.0f;
    #pragma unroll 8
    for (int k = 0; k < K; ++k) {
        const float a = A[m * K + k];
        const float b = B[k * N + n];
        sum += a * b;
    }
    C[m * N + n] = sum;
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int M = 128;

extern "C" cudaError_t matmul_naive_launch(
    const float* A,
    const float* B,
    float* C,
    cudaStream_t stream)
{
    matmul_naive<<<dim3((N + 31) / 32, (M + 7) / 8), dim3(32, 8), 0, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
