// matmul_batched: C[z] = A[z]·B[z], a batched GEMM of 12 matrices
//
// computes  C[z, m, n] = sum(A[z, m, k] * B[z, k, n], k)
// params    Z = 12, M = 33, K = 20, N = 40
// A         input, float32 [12, 33, 20]
// B         input, float32 [12, 20, 40]
// C         output, float32 [12, 33, 40]
// launch    grid (3, 3, 12), block (16, 16, 1), 2048 bytes of shared memory; family tiled
// bounds    7 of 7 accesses proved
// analysis  sm_90: 7 accesses, 6 ideal, 1 costly
//           worst: A[(z * M + m) * K + k0 + tx], 5 sectors, ideal 4; 3.4 on average (128 bytes in 2 runs)
//
// Made by cugen 0.1.0 from matmul_batched.yaml (hash 00cb35dd99443467) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   As[ty][tx]                    1 wavefront, ideal 1 (conflict-free)
//   B[(z * K + k0 + ty) * N + n]  4 sectors, ideal 4 (128 bytes in 2 runs)
//   Bs[ty][tx]                    1 wavefront, ideal 1 (conflict-free)
//   As[ty][k]                     1 wavefront, ideal 1 (conflict-free)
//   Bs[k][tx]                     1 wavefront, ideal 1 (conflict-free)
//   C[(z * M + m) * N + n]        4 sectors, ideal 4 (128 bytes in 2 runs)

constexpr int M = 33;
constexpr int K = 20;
constexpr int N = 40;

extern "C" __global__ void __launch_bounds__(256) matmul_batched(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C)
{
    constexpr int BM = 16, BN = 16, BK = 16;

    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];

    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int z = blockIdx.z;
    const int m0 = blockIdx.y * BM;
    const int n0 = blockIdx.x * BN;
    const int m = m0 + ty;
    const int n = n0 + tx;

    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += BK) {
        // A[(z * M + m) * K + k0 + tx]: 5 sectors, ideal 4; 3.4 on average (128 bytes in 2 runs)
        As[ty][tx] = m < M && k0 + tx < K ? A[(z * M + m) * K + k0 + tx] : 0.0f;
        Bs[ty][tx] = k0 + ty < K && n < N ? B[(z * K + k0 + ty) * N + n] : 0.0f;
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            acc += As[ty][k] * Bs[k][tx];
        }
        __syncthreads();
    }

    if (m >= M || n >= N)
        return;
    C[(z * M + m) * N + n] = acc;
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int Z = 12;

extern "C" cudaError_t matmul_batched_launch(
    const float* A,
    const float* B,
    float* C,
    cudaStream_t stream)
{
    matmul_batched<<<dim3((N + 15) / 16, (M + 15) / 16, Z), dim3(16, 16), 0, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
