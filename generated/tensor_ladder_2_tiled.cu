// tensor_ladder_2_tiled: step 2: block tiles in shared memory, thread tile 8 × 8: 16 elements feed 64 multiply-adds
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 128, N = 256, K = 96
// A         input, bfloat16 [128, 96], shared
// B         input, bfloat16 [96, 256], shared
// C         output, bfloat16 [128, 256]
// launch    grid (2, 1, 1), block (16, 16, 1), 4096 bytes of shared memory; family tiled
// bounds    13 of 13 accesses proved
// analysis  sm_90: 7 accesses, 6 ideal, 1 costly
//           worst: A[(m0 + r) * K + k0 + c], 4 sectors, ideal 2 (64 bytes in 4 runs)
//
// Made by cugen 0.1.0 from product_ladder_bf16.yaml (hash 0d631c2aafab6ee0) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   As[r][c]                  1 wavefront, ideal 1 (conflict-free)
//   B[(k0 + r) * N + n0 + c]  2 sectors, ideal 2 (64 contiguous bytes)
//   Bs[r][c]                  1 wavefront, ideal 1 (conflict-free)
//   As[ty + BM / TM * i][k]   1 wavefront, ideal 1 (conflict-free)
//   Bs[k][tx + BN / TN * j]   1 wavefront, ideal 1 (conflict-free)
//   C[m * N + n]              2 sectors, ideal 2 (64 bytes in 2 runs)

#include <cuda_bf16.h>

constexpr int N = 256;
constexpr int K = 96;

extern "C" __global__ void __launch_bounds__(256) tensor_ladder_2_tiled(
    const __nv_bfloat16* __restrict__ A,
    const __nv_bfloat16* __restrict__ B,
    __nv_bfloat16* __restrict__ C)
{
    constexpr int BM = 128, BN = 128, BK = 8, TM = 8, TN = 8;

    __shared__ __nv_bfloat16 As[BM][BK];
    __shared__ __nv_bfloat16 Bs[BK][BN];

    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int m0 = blockIdx.y * BM;
    const int n0 = blockIdx.x * BN;

    float acc[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int element = tx + BN / TN * ty; element < BK * BM; element += 256) {
            const int r = element / BK;
            const int c = element % BK;
            // A[(m0 + r) * K + k0 + c]: 4 sectors, ideal 2 (64 bytes in 4 runs)
            As[r][c] = A[(m0 + r) * K + k0 + c];
        }
        for (int element = tx + BN / TN * ty; element < BK * BN; element += 256) {
            const int r = element / BN;
            const int c = element % BN;
            Bs[r][c] = B[(k0 + r) * N + n0 + c];
        }
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            float a_frag[TM];
            #pragma unroll
            for (int i = 0; i < TM; ++i) {
                a_frag[i] = __bfloat162float(As[ty + BM / TM * i][k]);
            }
            float b_frag[TN];
            #pragma unroll
            for (int j = 0; j < TN; ++j) {
                b_frag[j] = __bfloat162float(Bs[k][tx + BN / TN * j]);
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
            C[m * N + n] = __float2bfloat16_rn(acc[i][j]);
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int M = 128;

extern "C" cudaError_t tensor_ladder_2_tiled_launch(
    const __nv_bfloat16* A,
    const __nv_bfloat16* B,
    __nv_bfloat16* C,
    cudaStream_t stream)
{
    tensor_ladder_2_tiled<<<dim3((N + 127) / 128, (M + 127) / 128), dim3(16, 16), 0, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
