// ladder_5_squares: step 5: thread tile 8 × 8; 16 elements from shared memory feed 64 multiply-adds
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 256, N = 256, K = 256
// A         input, float32 [256, 256], shared
// B         input, float32 [256, 256], shared
// C         output, float32 [256, 256]
// launch    grid (2, 2, 1), block (16, 16, 1), 8192 bytes of shared memory; family tiled
// bounds    13 of 13 accesses proved
// analysis  sm_90: 7 accesses, 7 ideal
//
// Made by cugen 0.1.0 from product_ladder.yaml (hash aba513c92c79a5d1) for sm_90. Edit the spec, not this file.

constexpr int N = 256;
constexpr int K = 256;

extern "C" __global__ void __launch_bounds__(256) ladder_5_squares(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C)
{
    constexpr int BM = 128, BN = 128, BK = 8, TM = 8, TN = 8;

    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];

    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int m0 = blockIdx.y * BM;
    const int n0 = blockIdx.x * BN;

    float acc[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int element = tx + BN / TN * ty; element < BK * BM; element += 256) {
            const int r = element / BK;
            const int c = element % BK;
            // A[(m0 + r) * K + k0 + c]: 4 sectors, ideal 4 (128 bytes in 4 runs)
            // As[r][c]: 1 wavefront, ideal 1 (conflict-free)
            As[r][c] = A[(m0 + r) * K + k0 + c];
        }
        for (int element = tx + BN / TN * ty; element < BK * BN; element += 256) {
            const int r = element / BN;
            const int c = element % BN;
            // B[(k0 + r) * N + n0 + c]: 4 sectors, ideal 4 (128 contiguous bytes)
            // Bs[r][c]: 1 wavefront, ideal 1 (conflict-free)
            Bs[r][c] = B[(k0 + r) * N + n0 + c];
        }
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            float a_frag[TM];
            #pragma unroll
            for (int i = 0; i < TM; ++i) {
                // As[ty + BM / TM * i][k]: 1 wavefront, ideal 1 (conflict-free)
                a_frag[i] = As[ty + BM / TM * i][k];
            }
            float b_frag[TN];
            #pragma unroll
            for (int j = 0; j < TN; ++j) {
                // Bs[k][tx + BN / TN * j]: 1 wavefront, ideal 1 (conflict-free)
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
            // C[m * N + n]: 4 sectors, ideal 4 (128 bytes in 2 runs)
            C[m * N + n] = acc[i][j];
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int M = 256;

extern "C" cudaError_t ladder_5_squares_launch(
    const float* A,
    const float* B,
    float* C,
    cudaStream_t stream)
{
    ladder_5_squares<<<dim3((N + 127) / 128, (M + 127) / 128), dim3(16, 16), 0, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
