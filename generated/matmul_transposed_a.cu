// matmul_transposed_a: C = Aᵀ·B; A is stored M-major, as [K, M]
//
// computes  C[m, n] = sum(A[k, m] * B[k, n], k)
// params    M = 100, K = 50, N = 70
// A         input, float32 [50, 100], shared
// B         input, float32 [50, 70], shared
// C         output, float32 [100, 70]
// launch    grid (5, 7, 1), block (16, 16, 1), 2048 bytes of shared memory; family tiled
// bounds    7 of 7 accesses proved
// analysis  sm_90: 7 accesses, 4 ideal, 3 costly
//           worst: C[m * N + n], 6 sectors, ideal 4; 5 on average (128 bytes in 2 runs)
//
// Made by cugen 0.1.0 from matmul_transposed.yaml (hash f5ae3058a65143ff) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   As[ty][tx]  1 wavefront, ideal 1 (conflict-free)
//   Bs[ty][tx]  1 wavefront, ideal 1 (conflict-free)
//   As[k][ty]   1 wavefront, ideal 1 (conflict-free)
//   Bs[k][tx]   1 wavefront, ideal 1 (conflict-free)

constexpr int M = 100;
constexpr int K = 50;
constexpr int N = 70;

extern "C" __global__ void __launch_bounds__(256) matmul_transposed_a(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C)
{
    constexpr int BM = 16, BN = 16, BK = 16;

    __shared__ float As[BK][BM];
    __shared__ float Bs[BK][BN];

    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int m0 = blockIdx.y * BM;
    const int n0 = blockIdx.x * BN;
    const int m = m0 + ty;
    const int n = n0 + tx;

    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += BK) {
        // A[(k0 + ty) * M + m0 + tx]: 5 sectors, ideal 4; 4.57 on average (128 bytes in 2 runs)
        As[ty][tx] = k0 + ty < K && m0 + tx < M ? A[(k0 + ty) * M + m0 + tx] : 0.0f;
        // B[(k0 + ty) * N + n]: 6 sectors, ideal 4; 4.98 on average (128 bytes in 2 runs)
        Bs[ty][tx] = k0 + ty < K && n < N ? B[(k0 + ty) * N + n] : 0.0f;
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            acc += As[k][ty] * Bs[k][tx];
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

extern "C" cudaError_t matmul_transposed_a_launch(
    const float* A,
    const float* B,
    float* C,
    cudaStream_t stream)
{
    matmul_transposed_a<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16), 0, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
