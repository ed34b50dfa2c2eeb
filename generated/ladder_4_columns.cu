// ladder_4_columns: step 4: thread tile 8 × 1; each element of B that a thread loads is used 8 times
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 256, N = 256, K = 256
// A         input, float32 [256, 256], shared
// B         input, float32 [256, 256], shared
// C         output, float32 [256, 256]
// launch    grid (4, 4, 1), block (64, 8, 1), 4096 bytes of shared memory; family tiled
// bounds    11 of 11 accesses proved
// analysis  sm_90: 7 accesses, 7 ideal
//
// Made by cugen 0.1.0 from product_ladder.yaml (hash 4b13c6abc0603076) for sm_90. Edit the spec, not this file.

constexpr int N = 256;
constexpr int K = 256;

extern "C" __global__ void __launch_bounds__(512) ladder_4_columns(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C)
{
    constexpr int BM = 64, BN = 64, BK = 8, TM = 8, TN = 1;

    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];

    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int m0 = blockIdx.y * BM;
    const int n0 = blockIdx.x * BN;

    float acc[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int element = tx + BN / TN * ty; element < BK * BM; element += 512) {
            const int r = element / BK;
            const int c = element % BK;
            // A[(m0 + r) * K + k0 + c]: 4 sectors, ideal 4 (128 bytes in 4 runs)
            // As[r][c]: 1 wavefront, ideal 1 (conflict-free)
            As[r][c] = A[(m0 + r) * K + k0 + c];
        }
        // B[(k0 + ty) * N + n0 + tx]: 4 sectors, ideal 4 (128 contiguous bytes)
        // Bs[ty][tx]: 1 wavefront, ideal 1 (conflict-free)
        Bs[ty][tx] = B[(k0 + ty) * N + n0 + tx];
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            float a_frag[TM];
            #pragma unroll
            for (int i = 0; i < TM; ++i) {
                // As[ty + BM / TM * i][k]: 1 wavefront, ideal 1 (one word: broadcast)
                a_frag[i] = As[ty + BM / TM * i][k];
            }
            // Bs[k][tx]: 1 wavefront, ideal 1 (conflict-free)
            const float b = Bs[k][tx];
            #pragma unroll
            for (int i = 0; i < TM; ++i) {
                acc[i][0] += a_frag[i] * b;
            }
        }
        __syncthreads();
    }

    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int m = m0 + ty + BM / TM * i;
        const int n = n0 + tx;
        // C[m * N + n]: 4 sectors, ideal 4 (128 contiguous bytes)
        C[m * N + n] = acc[i][0];
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int M = 256;

extern "C" cudaError_t ladder_4_columns_launch(
    const float* A,
    const float* B,
    float* C,
    cudaStream_t stream)
{
    ladder_4_columns<<<dim3((N + 63) / 64, (M + 63) / 64), dim3(64, 8), 0, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
