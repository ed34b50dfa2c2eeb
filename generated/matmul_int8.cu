// matmul_int8: C = A·B on 8-bit integers with 32-bit accumulators, as in quantised networks
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 60, K = 200, N = 90
// A         input, int8 [60, 200]
// B         input, int8 [200, 90]
// C         output, int32 [60, 90]
// launch    grid (6, 4, 1), block (16, 16, 1), 512 bytes of shared memory; family tiled
// analysis  sm_90: 7 accesses, 4 ideal, 3 costly
//           worst: B[(k0 + ty) * N + n], 4 sectors, ideal 1; 2.81 on average (32 bytes in 2 runs)
//
// Made by cugen 0.1.0 from matmul_int8.yaml (hash e6e6a92724a564f5) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   As[ty][tx]  1 wavefront, ideal 1 (conflict-free)
//   Bs[ty][tx]  1 wavefront, ideal 1 (conflict-free)
//   As[ty][k]   1 wavefront, ideal 1 (conflict-free)
//   Bs[k][tx]   1 wavefront, ideal 1 (conflict-free)

constexpr int M = 60;
constexpr int K = 200;
constexpr int N = 90;

extern "C" __global__ void __launch_bounds__(256) matmul_int8(
    const signed char* __restrict__ A,
    const signed char* __restrict__ B,
    int* __restrict__ C)
{
    constexpr int BM = 16, BN = 16, BK = 16;

    __shared__ signed char As[BM][BK];
    __shared__ signed char Bs[BK][BN];

    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int m0 = blockIdx.y * BM;
    const int n0 = blockIdx.x * BN;
    const int m = m0 + ty;
    const int n = n0 + tx;

    int acc = 0;
    for (int k0 = 0; k0 < K; k0 += BK) {
        // A[m * K + k0 + tx]: 3 sectors, ideal 1; 2.46 on average (32 bytes in 2 runs)
        As[ty][tx] = m < M && k0 + tx < K ? A[m * K + k0 + tx] : 0;
        // B[(k0 + ty) * N + n]: 4 sectors, ideal 1; 2.81 on average (32 bytes in 2 runs)
        Bs[ty][tx] = k0 + ty < K && n < N ? B[(k0 + ty) * N + n] : 0;
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            acc += As[ty][k] * Bs[k][tx];
        }
        __syncthreads();
    }

    if (m >= M || n >= N)
        return;
    // C[m * N + n]: 6 sectors, ideal 4; 5.25 on average (128 bytes in 2 runs)
    C[m * N + n] = acc;
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t matmul_int8_launch(
    const signed char* A,
    const signed char* B,
    int* C,
    cudaStream_t stream)
{
    matmul_int8<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16), 0, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
