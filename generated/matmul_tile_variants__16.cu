// matmul_tile_variants__16: C = A·B with tiles of 16 × 16
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 70, K = 45, N = 83
// A         input, float32 [70, 45], shared
// B         input, float32 [45, 83], shared
// C         output, float32 [70, 83]
// launch    grid (6, 5, 1), block (16, 16, 1), 2048 bytes of shared memory; family tiled
// bounds    7 of 7 accesses proved
// analysis  sm_90: 7 accesses, 4 ideal, 3 costly
//           worst: C[m * N + n], 6 sectors, ideal 4; 5.2 on average (128 bytes in 2 runs)
//
// Made by cugen 0.1.0 from matmul_tile_variants.yaml (hash d623af90914d43db) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   As[ty][tx]  1 wavefront, ideal 1 (conflict-free)
//   Bs[ty][tx]  1 wavefront, ideal 1 (conflict-free)
//   As[ty][k]   1 wavefront, ideal 1 (conflict-free)
//   Bs[k][tx]   1 wavefront, ideal 1 (conflict-free)

constexpr int M = 70;
constexpr int K = 45;
constexpr int N = 83;

extern "C" __global__ void __launch_bounds__(256) matmul_tile_variants__16(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C)
{
    constexpr int BM = 16, BN = 16, BK = 16;

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
        // A[m * K + k0 + tx]: 6 sectors, ideal 4; 5.5 on average (128 bytes in 2 runs)
        As[ty][tx] = m < M && k0 + tx < K ? A[m * K + k0 + tx] : 0.0f;
        // B[(k0 + ty) * N + n]: 6 sectors, ideal 4; 5.08 on average (128 bytes in 2 runs)
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
    // C[m * N + n]: 6 sectors, ideal 4; 5.2 on average (128 bytes in 2 runs)
    C[m * N + n] = acc;
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t matmul_tile_variants__16_launch(
    const float* A,
    const float* B,
    float* C,
    cudaStream_t stream)
{
    matmul_tile_variants__16<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16), 0, stream>>>(A, B, C);
    return cudaGetLastError();
}

// Blocks that are resident at once on an SM of the current device.
extern "C" cudaError_t matmul_tile_variants__16_blocks_per_sm(int* blocks)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, matmul_tile_variants__16, 256, 0);
}

#endif
