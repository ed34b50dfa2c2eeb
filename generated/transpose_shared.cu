// transpose_shared: B = Aᵀ through a shared tile; both sides are contiguous in global memory, but the
// tile's columns lie in one bank
//
// computes  B[n, m] = A[m, n]
// params    M = 256, N = 192
// A         input, float32 [256, 192], shared
// B         output, float32 [192, 256]
// launch    grid (8, 6, 1), block (32, 8, 1), 4096 bytes of shared memory; family transpose
// bounds    4 of 4 accesses proved
// analysis  sm_90: 4 accesses, 3 ideal, 1 costly
//           worst: tile[tx][ty + r], 32 wavefronts, ideal 1 (lanes 0 and 1: words 0 and 32, bank 0)
//
// Made by cugen 0.1.0 from transpose_shared.yaml (hash cf6a97d6e094a82c) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   A[m_in * N + n_in]  4 sectors, ideal 4 (128 contiguous bytes)
//   tile[ty + r][tx]    1 wavefront, ideal 1 (conflict-free)
//   B[n * M + m]        4 sectors, ideal 4 (128 contiguous bytes)

constexpr int M = 256;
constexpr int N = 192;

extern "C" __global__ void __launch_bounds__(256) transpose_shared(
    const float* __restrict__ A,
    float* __restrict__ B)
{
    __shared__ float tile[32][32];

    const int m0 = blockIdx.x * 32;
    const int n0 = blockIdx.y * 32;
    const int tx = threadIdx.x;
    const int ty = threadIdx.y;

    const int n_in = n0 + tx;
    #pragma unroll
    for (int r = 0; r < 32; r += 8) {
        const int m_in = m0 + ty + r;
        tile[ty + r][tx] = A[m_in * N + n_in];
    }
    __syncthreads();

    const int m = m0 + tx;
    #pragma unroll
    for (int r = 0; r < 32; r += 8) {
        const int n = n0 + ty + r;
        // tile[tx][ty + r]: 32 wavefronts, ideal 1 (lanes 0 and 1: words 0 and 32, bank 0)
        B[n * M + m] = tile[tx][ty + r];
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t transpose_shared_launch(
    const float* A,
    float* B,
    cudaStream_t stream)
{
    transpose_shared<<<dim3((M + 31) / 32, (N + 31) / 32), dim3(32, 8), 0, stream>>>(A, B);
    return cudaGetLastError();
}

#endif
