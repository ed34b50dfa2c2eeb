// transpose_swizzled: B = Aᵀ through a shared tile whose columns are permuted row by row; as fast as
// padding, and no byte is wasted
//
// computes  B[n, m] = A[m, n]
// params    M = 300, N = 200
// A         input, float32 [300, 200], shared
// B         output, float32 [200, 300]
// launch    grid (10, 7, 1), block (32, 8, 1), 4096 bytes of shared memory; family transpose
// bounds    4 of 4 accesses proved
// analysis  sm_90: 4 accesses, 3 ideal, 1 costly
//           worst: B[n * M + m], 5 sectors, ideal 4; 4.25 on average (misaligned by 16 bytes)
//
// Made by cugen 0.1.0 from transpose_swizzled.yaml (hash 6361d9fdaffa3269) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   A[m_in * N + n_in]           4 sectors, ideal 4 (128 contiguous bytes)
//   tile[ty + r][tx ^ (ty + r)]  1 wavefront, ideal 1 (xor swizzle: 32 banks)
//   tile[tx][(ty + r) ^ tx]      1 wavefront, ideal 1 (xor swizzle: 32 banks)

constexpr int M = 300;
constexpr int N = 200;

extern "C" __global__ void __launch_bounds__(256) transpose_swizzled(
    const float* __restrict__ A,
    float* __restrict__ B)
{
    __shared__ float tile[32][32];

    const int m0 = blockIdx.x * 32;
    const int n0 = blockIdx.y * 32;
    const int tx = threadIdx.x;
    const int ty = threadIdx.y;

    const int n_in = n0 + tx;
    if (n_in < N) {
        #pragma unroll
        for (int r = 0; r < 32; r += 8) {
            const int m_in = m0 + ty + r;
            if (m_in < M) {
                tile[ty + r][tx ^ (ty + r)] = A[m_in * N + n_in];
            }
        }
    }
    __syncthreads();

    const int m = m0 + tx;
    if (m < M) {
        #pragma unroll
        for (int r = 0; r < 32; r += 8) {
            const int n = n0 + ty + r;
            if (n < N) {
                // B[n * M + m]: 5 sectors, ideal 4; 4.25 on average (misaligned by 16 bytes)
                B[n * M + m] = tile[tx][(ty + r) ^ tx];
            }
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t transpose_swizzled_launch(
    const float* A,
    float* B,
    cudaStream_t stream)
{
    transpose_swizzled<<<dim3((M + 31) / 32, (N + 31) / 32), dim3(32, 8), 0, stream>>>(A, B);
    return cudaGetLastError();
}

#endif
