// matmul_tiled: C = A·B; tiles of A and B are staged through shared memory
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 1000, K = 513, N = 777
// A         input, float32 [1000, 513], shared
// B         input, float32 [513, 777], shared
// C         output, float32 [1000, 777]
// launch    grid (49, 63, 1), block (16, 16, 1), 2048 bytes of shared memory; family tiled
// bounds    7 of 7 accesses proved
// analysis  sm_90: 7 accesses, 4 ideal, 3 costly
//           worst: A[m * K + k0 + tx], 6 sectors, ideal 4; 5.64 on average (128 bytes in 2 runs)
//
// Made by cugen 0.1.0 from matmul_tiled.yaml (hash 481af32f968e1a87) for sm_90. Edit the spec, not this file.

constexpr int M = 1000;
constexpr int K = 513;
constexpr int N = 777;

extern "C" __global__ void __launch_bounds__(256) matmul_tiled(
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
        // A[m * K + k0 + tx]: 6 sectors, ideal 4; 5.64 on average (128 bytes in 2 runs)
        // As[ty][tx]: 1 wavefront, ideal 1 (conflict-free)
        As[ty][tx] = m < M && k0 + tx < K ? A[m * K + k0 + tx] : 0.0f;
        // B[(k0 + ty) * N + n]: 6 sectors, ideal 4; 5.7 on average (128 bytes in 2 runs)
        // Bs[ty][tx]: 1 wavefront, ideal 1 (conflict-free)
        Bs[ty][tx] = k0 + ty < K && n < N ? B[(k0 + ty) * N + n] : 0.0f;
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            // As[ty][k]: 1 wavefront, ideal 1 (conflict-free)
            // Bs[k][tx]: 1 wavefront, ideal 1 (conflict-free)
            acc += As[ty][k] * Bs[k][tx];
        }
        __syncthreads();
    }

    if (m >= M || n >= N)
        return;
    // C[m * N + n]: 6 sectors, ideal 4; 5.71 on average (128 bytes in 2 runs)
    C[m * N + n] = acc;
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t matmul_tiled_launch(
    const float* A,
    const float* B,
    float* C,
    cudaStream_t stream)
{
    matmul_tiled<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16), 0, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
