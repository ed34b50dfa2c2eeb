// matmul_register_tiles: C = A·B with thread tiles of 4 × 4 in registers, so that each
// shared-memory load is used four times
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 150, K = 100, N = 130
// A         input, float32 [150, 100], shared
// B         input, float32 [100, 130], shared
// C         output, float32 [150, 130]
// launch    grid (5, 3, 1), block (8, 16, 1), 6400 bytes of shared memory; family tiled
// bounds    13 of 13 accesses proved
// analysis  sm_90: 7 accesses, 2 ideal, 5 costly
//           worst: Bs[ty][c], 4 wavefronts, ideal 1 (lanes 0 and 8: words 0 and 32, bank 0)
//
// Made by cugen 0.1.0 from matmul_register_tiles.yaml (hash 0bbf37ad7245569f) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   As[ty + BM / TM * i][k]  1 wavefront, ideal 1 (conflict-free)
//   Bs[k][tx + BN / TN * j]  1 wavefront, ideal 1 (conflict-free)

constexpr int M = 150;
constexpr int K = 100;
constexpr int N = 130;

extern "C" __global__ void __launch_bounds__(128) matmul_register_tiles(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C)
{
    constexpr int BM = 64, BN = 32, BK = 16, TM = 4, TN = 4;

    __shared__ float As[BM][BK + 1];
    __shared__ float Bs[BK][BN];

    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int m0 = blockIdx.y * BM;
    const int n0 = blockIdx.x * BN;

    float acc[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int r = ty; r < BM; r += BM / TM) {
            for (int c = tx; c < BK; c += BN / TN) {
                // A[(m0 + r) * K + k0 + c]: 6 sectors, ideal 4; 5.77 on average (128 bytes in 4 runs)
                // As[r][c]: 2 wavefronts, ideal 1 (lanes 2 and 16: words 2 and 34, bank 2)
                As[r][c] = m0 + r < M && k0 + c < K ? A[(m0 + r) * K + k0 + c] : 0.0f;
            }
        }
        for (int c = tx; c < BN; c += BN / TN) {
            // B[(k0 + ty) * N + n0 + c]: 7 sectors, ideal 4; 6.82 on average (128 bytes in 4 runs)
            // Bs[ty][c]: 4 wavefronts, ideal 1 (lanes 0 and 8: words 0 and 32, bank 0)
            Bs[ty][c] = k0 + ty < K && n0 + c < N ? B[(k0 + ty) * N + n0 + c] : 0.0f;
        }
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            float a_frag[TM];
            #pragma unroll
            for (int i = 0; i < TM; ++i) {
                a_frag[i] = As[ty + BM / TM * i][k];
            }
            float b_frag[TN];
            #pragma unroll
            for (int j = 0; j < TN; ++j) {
                b_frag[j] = Bs[k][tx + BN / TN * j];
            }
            #pragma unroll
            for (int i = 0; i < TM; ++i) {
                #pragma unroll
                for (int j = 0; j < TN; ++j) {
                    acc[i][j] += a_frag[i] * b_frag[j];
                }
            }
        }
        __syncthreads();
    }

    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int m = m0 + ty + BM / TM * i;
        #pragma unroll
        for (int j = 0; j < TN; ++j) {
            const int n = n0 + tx + BN / TN * j;
            if (m < M && n < N) {
                // C[m * N + n]: 7 sectors, ideal 4; 6.72 on average (128 bytes in 4 runs)
                C[m * N + n] = acc[i][j];
            }
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t matmul_register_tiles_launch(
    const float* A,
    const float* B,
    float* C,
    cudaStream_t stream)
{
    matmul_register_tiles<<<dim3((N + 31) / 32, (M + 63) / 64), dim3(8, 16), 0, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
