// matmul_transposed_b: C = A·Bᵀ; B is stored K-major, as [N, K]
//
// computes  C[m, n] = sum(A[m, k] * B[n, k], k)
// params    M = 100, K = 50, N = 70
// A         input, float32 [100, 50], shared
// B         input, float32 [70, 50], shared
// C         output, float32 [100, 70]
// launch    grid (5, 7, 1), block (16, 16, 1), 2112 bytes of shared memory; family tiled
// bounds    7 of 7 accesses proved
// analysis  sm_90: 7 accesses, 3 ideal, 4 costly
//           worst: Bs[ty][tx], 2 wavefronts, ideal 1 (lanes 0 and 31: words 0 and 32, bank 0)
//
// Made by cugen 0.1.0 from matmul_transposed.yaml (hash e43872635579e130) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   As[ty][tx]  1 wavefront, ideal 1 (conflict-free)
//   As[ty][k]   1 wavefront, ideal 1 (conflict-free)
//   Bs[tx][k]   1 wavefront, ideal 1 (conflict-free)

constexpr int M = 100;
constexpr int K = 50;
constexpr int N = 70;

extern "C" __global__ void __launch_bounds__(256) matmul_transposed_b(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C)
{
    constexpr int BM = 16, BN = 16, BK = 16;

    __shared__ float As[BM][BK];
    __shared__ float Bs[BN][BK + 1];

    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int m0 = blockIdx.y * BM;
    const int n0 = blockIdx.x * BN;
    const int m = m0 + ty;
    const int n = n0 + tx;

    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += BK) {
        // A[m * K + k0 + tx]: 6 sectors, ideal 4; 4.62 on average (128 bytes in 2 runs)
        As[ty][tx] = m < M && k0 + tx < K ? A[m * K + k0 + tx] : 0.0f;
        // B[(n0 + ty) * K + k0 + tx]: 6 sectors, ideal 4; 4.61 on average (128 bytes in 2 runs)
        // Bs[ty][tx]: 2 wavefronts, ideal 1 (lanes 0 and 31: words 0 and 32, bank 0)
        Bs[ty][tx] = n0 + ty < N && k0 + tx < K ? B[(n0 + ty) * K + k0 + tx] : 0.0f;
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            acc += As[ty][k] * Bs[tx][k];
        }
        __syncthreads();
    }

    if (m >= M || n >= N)
        return;
    // C[m * N + n]: 6 sectors, ideal 4; 5 on average (128 bytes in 2 runs)
    C[m * N + n] = acc;
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t matmul_transposed_b_launch(
    const float* A,
    const float* B,
    float* C,
    cudaStream_t stream)
{
    matmul_transposed_b<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16), 0, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
