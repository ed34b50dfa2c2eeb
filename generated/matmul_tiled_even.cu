// matmul_tiled_even: C = A·B on sizes that the tiles divide, so that no load or store is guarded
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 128, K = 64, N = 96
// A         input, float32 [128, 64], shared
// B         input, float32 [64, 96], shared
// C         output, float32 [128, 96]
// launch    grid (6, 8, 1), block (16, 16, 1), 2048 bytes of shared memory; family tiled
// bounds    7 of 7 accesses proved
// analysis  sm_90: 7 accesses, 7 ideal
//
// Made by cugen 0.1.0 from matmul_tiled_even.yaml (hash 1886e6e6cc4653c6) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   A[m * K + k0 + tx]    4 sectors, ideal 4 (128 bytes in 2 runs)
//   As[ty][tx]            1 wavefront, ideal 1 (conflict-free)
//   B[(k0 + ty) * N + n]  4 sectors, ideal 4 (128 bytes in 2 runs)
//   Bs[ty][tx]            1 wavefront, ideal 1 (conflict-free)
//   As[ty][k]             1 wavefront, ideal 1 (conflict-free)
//   Bs[k][tx]             1 wavefront, ideal 1 (conflict-free)
//   C[m * N + n]          4 sectors, ideal 4 (128 bytes in 2 runs)

constexpr int K = 64;
constexpr int N = 96;

extern "C" __global__ void __launch_bounds__(256) matmul_tiled_even(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C)
{
    constexpr int BM = 16, BN = 16, BK = 16;

    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];

    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int m0 = blockIdx.y * BM;
    const int n0 = blockIdx.x * BN;
    const int m = m0 + ty;
    const int n = n0 + tx;

    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += BK) {
        As[ty][tx] = A[m * K + k0 + tx];
        Bs[ty][tx] = B[(k0 + ty) * N + n];
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            acc += As[ty][k] * Bs[k][tx];
        }
        __syncthreads();
    }

    C[m * N + n] = acc;
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int M = 128;

extern "C" cudaError_t matmul_tiled_even_launch(
    const float* A,
    const float* B,
    float* C,
    cudaStream_t stream)
{
    matmul_tiled_even<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16), 0, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
