// matmul_tile_variants__32: C = A·B with tiles of 32 × 32
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 70, K = 45, N = 83
// A         input, float32 [70, 45], shared
// B         input, float32 [45, 83], shared
// C         output, float32 [70, 83]
// launch    grid (3, 3, 1), block (32, 32, 1), 8192 bytes of shared memory; family tiled
// bounds    7 of 7 accesses proved
// analysis  sm_90: 7 accesses, 4 ideal, 3 costly
//           worst: A[m * K + k0 + tx], 5 sectors, ideal 4; 3.69 on average (misaligned by 20 bytes)
//
// Made by cugen 0.1.0 from matmul_tile_variants.yaml (hash 55e67cae73541546) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   As[ty][tx]  1 wavefront, ideal 1 (conflict-free)
//   Bs[ty][tx]  1 wavefront, ideal 1 (conflict-free)
//   As[ty][k]   1 wavefront, ideal 1 (one word: broadcast)
//   Bs[k][tx]   1 wavefront, ideal 1 (conflict-free)

constexpr int M = 70;
constexpr int K = 45;
constexpr int N = 83;

extern "C" __global__ void __launch_bounds__(1024) matmul_tile_variants__32(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C)
{
    constexpr int BM = 32, BN = 32, BK = 32;

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
        // A[m * K + k0 + tx]: 5 sectors, ideal 4; 3.69 on average (misaligned by 20 bytes)
        As[ty][tx] = m < M && k0 + tx < K ? A[m * K + k0 + tx] : 0.0f;
        // B[(k0 + ty) * N + n]: 5 sectors, ideal 4; 4.33 on average (misaligned by 12 bytes)
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
    // C[m * N + n]: 5 sectors, ideal 4; 4.33 on average (misaligned by 12 bytes)
    C[m * N + n] = acc;
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t matmul_tile_variants__32_launch(
    const float* A,
    const float* B,
    float* C,
    cudaStream_t stream)
{
    matmul_tile_variants__32<<<dim3((N + 31) / 32, (M + 31) / 32), dim3(32, 32), 0, stream>>>(A, B, C);
    return cudaGetLastError();
}

// Blocks that are resident at once on an SM of the current device.
extern "C" cudaError_t matmul_tile_variants__32_blocks_per_sm(int* blocks)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, matmul_tile_variants__32, 1024, 0);
}

#endif
