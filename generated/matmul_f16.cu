// matmul_f16: C = A·B on half-precision matrices; accumulated in float32 and rounded once, on the store
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 80, K = 128, N = 96
// A         input, float16 [80, 128]
// B         input, float16 [128, 96]
// C         output, float16 [80, 96]
// launch    grid (2, 2, 1), block (16, 16, 1), 4096 bytes of shared memory; family tiled
// analysis  sm_90: 7 accesses, 6 ideal, 1 costly
//           worst: Bs[ty][c], 2 wavefronts, ideal 1 (lanes 0 and 16: words 0 and 32, bank 0)
//
// Made by cugen 0.1.0 from matmul_f16.yaml (hash 96baf839bf2ddf30) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   A[(m0 + r) * K + k0 + tx]  2 sectors, ideal 2 (64 bytes in 2 runs)
//   As[r][tx]                  1 wavefront, ideal 1 (conflict-free)
//   B[(k0 + ty) * N + n0 + c]  2 sectors, ideal 2 (64 bytes in 2 runs)
//   As[ty + BM / TM * i][k]    1 wavefront, ideal 1 (conflict-free)
//   Bs[k][tx + BN / TN * j]    1 wavefront, ideal 1 (conflict-free)
//   C[m * N + n]               2 sectors, ideal 2 (64 bytes in 2 runs)

#include <cuda_fp16.h>

constexpr int M = 80;
constexpr int K = 128;
constexpr int N = 96;

extern "C" __global__ void __launch_bounds__(256) matmul_f16(
    const __half* __restrict__ A,
    const __half* __restrict__ B,
    __half* __restrict__ C)
{
    constexpr int BM = 64, BN = 64, BK = 16, TM = 4, TN = 4;

    __shared__ __half As[BM][BK];
    __shared__ __half Bs[BK][BN];

    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int m0 = blockIdx.y * BM;
    const int n0 = blockIdx.x * BN;

    float acc[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int r = ty; r < BM; r += BM / TM) {
            As[r][tx] = m0 + r < M ? A[(m0 + r) * K + k0 + tx] : __float2half_rn(0.0f);
        }
        for (int c = tx; c < BN; c += BN / TN) {
            // Bs[ty][c]: 2 wavefronts, ideal 1 (lanes 0 and 16: words 0 and 32, bank 0)
            Bs[ty][c] = n0 + c < N ? B[(k0 + ty) * N + n0 + c] : __float2half_rn(0.0f);
        }
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            float a_frag[TM];
            #pragma unroll
            for (int i = 0; i < TM; ++i) {
                a_frag[i] = __half2float(As[ty + BM / TM * i][k]);
            }
            float b_frag[TN];
            #pragma unroll
            for (int j = 0; j < TN; ++j) {
                b_frag[j] = __half2float(Bs[k][tx + BN / TN * j]);
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
                const float total = acc[i][j];
                C[m * N + n] = __float2half_rn(total);
            }
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t matmul_f16_launch(
    const __half* A,
    const __half* B,
    __half* C,
    cudaStream_t stream)
{
    matmul_f16<<<dim3((N + 63) / 64, (M + 63) / 64), dim3(16, 16), 0, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
