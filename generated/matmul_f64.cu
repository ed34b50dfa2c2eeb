// matmul_f64: C = A·B in double precision
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 64, K = 100, N = 72
// A         input, float64 [64, 100], shared
// B         input, float64 [100, 72], shared
// C         output, float64 [64, 72]
// launch    grid (5, 4, 1), block (16, 16, 1), 4096 bytes of shared memory; family tiled
// bounds    7 of 7 accesses proved
// analysis  sm_90: 7 accesses, 6 ideal, 1 costly
//           worst: As[ty][k], 2 wavefronts, ideal 1 (4 words over 2 banks)
//
// Made by cugen 0.1.0 from matmul_f64.yaml (hash 31c1480e3643ba22) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   A[m * K + k0 + tx]    8 sectors, ideal 8 (256 bytes in 2 runs)
//   As[ty][tx]            2 wavefronts, ideal 2 (64 words over 32 banks)
//   B[(k0 + ty) * N + n]  8 sectors, ideal 8 (256 bytes in 2 runs)
//   Bs[ty][tx]            2 wavefronts, ideal 2 (64 words over 32 banks)
//   Bs[k][tx]             2 wavefronts, ideal 2 (conflict-free)
//   C[m * N + n]          8 sectors, ideal 8 (256 bytes in 2 runs)

constexpr int K = 100;
constexpr int N = 72;

extern "C" __global__ void __launch_bounds__(256) matmul_f64(
    const double* __restrict__ A,
    const double* __restrict__ B,
    double* __restrict__ C)
{
    constexpr int BM = 16, BN = 16, BK = 16;

    __shared__ double As[BM][BK];
    __shared__ double Bs[BK][BN];

    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int m0 = blockIdx.y * BM;
    const int n0 = blockIdx.x * BN;
    const int m = m0 + ty;
    const int n = n0 + tx;

    double acc = 0.0;
    for (int k0 = 0; k0 < K; k0 += BK) {
        As[ty][tx] = k0 + tx < K ? A[m * K + k0 + tx] : 0.0;
        Bs[ty][tx] = k0 + ty < K && n < N ? B[(k0 + ty) * N + n] : 0.0;
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            // As[ty][k]: 2 wavefronts, ideal 1 (4 words over 2 banks)
            acc += As[ty][k] * Bs[k][tx];
        }
        __syncthreads();
    }

    if (n >= N)
        return;
    C[m * N + n] = acc;
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int M = 64;

extern "C" cudaError_t matmul_f64_launch(
    const double* A,
    const double* B,
    double* C,
    cudaStream_t stream)
{
    matmul_f64<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16), 0, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
