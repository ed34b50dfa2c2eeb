// matmul_column_major: C = A·B on matrices whose columns are contiguous, as in Fortran and BLAS
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 96, K = 64, N = 80
// A         input, float32 [96, 64], strides (1, 96)
// B         input, float32 [64, 80], strides (1, 64)
// C         output, float32 [96, 80], strides (1, 96)
// launch    grid (2, 2, 1), block (16, 16, 1), 8192 bytes of shared memory; family tiled
// analysis  sm_90: 7 accesses, 6 ideal, 1 costly
//           worst: As[ty][c], 2 wavefronts, ideal 1 (lanes 0 and 16: words 0 and 64, bank 0)
//
// Made by cugen 0.1.0 from matmul_column_major.yaml (hash c093f6d8292cd20c) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   B[(n0 + r) * K + k0 + tx]  4 sectors, ideal 4 (128 bytes in 2 runs)
//   Bs[r][tx]                  1 wavefront, ideal 1 (conflict-free)
//   A[(k0 + ty) * M + m0 + c]  4 sectors, ideal 4 (128 bytes in 2 runs)
//   Bs[ty + BM / TM * i][k]    1 wavefront, ideal 1 (conflict-free)
//   As[k][tx + BN / TN * j]    1 wavefront, ideal 1 (conflict-free)
//   C[n * M + m]               4 sectors, ideal 4 (128 bytes in 2 runs)

constexpr int M = 96;
constexpr int K = 64;
constexpr int N = 80;

extern "C" __global__ void __launch_bounds__(256) matmul_column_major(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C)
{
    constexpr int BM = 64, BN = 64, BK = 16, TM = 4, TN = 4;

    __shared__ float Bs[BM][BK];
    __shared__ float As[BK][BN];

    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int n0 = blockIdx.y * BM;
    const int m0 = blockIdx.x * BN;

    float acc[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int r = ty; r < BM; r += BM / TM) {
            Bs[r][tx] = n0 + r < N ? B[(n0 + r) * K + k0 + tx] : 0.0f;
        }
        for (int c = tx; c < BN; c += BN / TN) {
            // As[ty][c]: 2 wavefronts, ideal 1 (lanes 0 and 16: words 0 and 64, bank 0)
            As[ty][c] = m0 + c < M ? A[(k0 + ty) * M + m0 + c] : 0.0f;
        }
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            float b_frag[TM];
            #pragma unroll
            for (int i = 0; i < TM; ++i) {
                b_frag[i] = Bs[ty + BM / TM * i][k];
            }
            float a_frag[TN];
            #pragma unroll
            for (int j = 0; j < TN; ++j) {
                a_frag[j] = As[k][tx + BN / TN * j];
            }
            #pragma unroll
            for (int i = 0; i < TM; ++i) {
                #pragma unroll
                for (int j = 0; j < TN; ++j) {
                    acc[i][j] += a_frag[j] * b_frag[i];
                }
            }
        }
        __syncthreads();
    }

    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int n = n0 + ty + BM / TM * i;
        #pragma unroll
        for (int j = 0; j < TN; ++j) {
            const int m = m0 + tx + BN / TN * j;
            if (n < N && m < M) {
                const float total = acc[i][j];
                C[n * M + m] = total;
            }
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t matmul_column_major_launch(
    const float* A,
    const float* B,
    float* C,
    cudaStream_t stream)
{
    matmul_column_major<<<dim3((M + 63) / 64, (N + 63) / 64), dim3(16, 16), 0, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
