// matmul_padded: C = A·B with blocks of 32 × 8, whose reads of A's tile would have bank conflicts without padding
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 130, K = 70, N = 90
// A         input, float32 [130, 70], shared
// B         input, float32 [70, 90], shared
// C         output, float32 [130, 90]
// launch    grid (12, 5, 1), block (8, 32, 1), 6144 bytes of shared memory; family tiled
// bounds    7 of 7 accesses proved
// analysis  sm_90: 7 accesses, 4 ideal, 3 costly
//           worst: C[m * N + n], 7 sectors, ideal 4; 6.63 on average (128 bytes in 4 runs)
//
// Made by cugen 0.1.0 from matmul_padded.yaml (hash b851cc0010e23b55) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   As[ty][c]   1 wavefront, ideal 1 (conflict-free)
//   Bs[ty][tx]  1 wavefront, ideal 1 (conflict-free)
//   As[ty][k]   1 wavefront, ideal 1 (conflict-free)
//   Bs[k][tx]   1 wavefront, ideal 1 (conflict-free)

constexpr int M = 130;
constexpr int K = 70;
constexpr int N = 90;

extern "C" __global__ void __launch_bounds__(256) matmul_padded(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C)
{
    constexpr int BM = 32, BN = 8, BK = 32;

    __shared__ float As[BM][BK + 8];
    __shared__ float Bs[BK][BN];

    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int m0 = blockIdx.y * BM;
    const int n0 = blockIdx.x * BN;
    const int m = m0 + ty;
    const int n = n0 + tx;

    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int c = tx; c < BK; c += BN) {
            // A[m * K + k0 + c]: 7 sectors, ideal 4; 6.77 on average (128 bytes in 4 runs)
            As[ty][c] = m < M && k0 + c < K ? A[m * K + k0 + c] : 0.0f;
        }
        // B[(k0 + ty) * N + n]: 7 sectors, ideal 4; 6.54 on average (128 bytes in 4 runs)
        Bs[ty][tx] = k0 + ty < K && n < N ? B[(k0 + ty) * N + n] : 0.0f;
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            acc += As[ty][k] * Bs[k][tx];
        }
        __syncthreads();
    }

    if (m >= M || n >= N)
        return;
    // C[m * N + n]: 7 sectors, ideal 4; 6.63 on average (128 bytes in 4 runs)
    C[m * N + n] = acc;
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t matmul_padded_launch(
    const float* A,
    const float* B,
    float* C,
    cudaStream_t stream)
{
    matmul_padded<<<dim3((N + 7) / 8, (M + 31) / 32), dim3(8, 32), 0, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
