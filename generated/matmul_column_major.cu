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

constexpr int M = 96;
constexpr int K = 64;
constexpr int N = 80;

extern "C" __global__ void __launch_bounds__(256) matmul_column_major(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C)
{
    __shared__ float Bs[64][16];
    __shared__ float As[16][64];

    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int n0 = blockIdx.y * 64;
    const int m0 = blockIdx.x * 64;

    float acc[4][4] = {};
    for (int k0 = 0; k0 < K; k0 += 16) {
        for (int r = ty; r < 64; r += 16) {
            // B[(n0 + r) * K + k0 + tx]: 4 sectors, ideal 4 (128 bytes in 2 runs)
            // Bs[r][tx]: 1 wavefront, ideal 1 (conflict-free)
            Bs[r][tx] = n0 + r < N ? B[(n0 + r) * K + k0 + tx] : 0.0f;
        }
        for (int c = tx; c < 64; c += 16) {
            // A[(k0 + ty) * M + m0 + c]: 4 sectors, ideal 4 (128 bytes in 2 runs)
            // As[ty][c]: 2 wavefronts, ideal 1 (lanes 0 and 16: words 0 and 64, bank 0)
            As[ty][c] = m0 + c < M ? A[(k0 + ty) * M + m0 + c] : 0.0f;
        }
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < 16; ++k) {
            float b_frag[4];
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                // Bs[ty + 16 * i][k]: 1 wavefront, ideal 1 (conflict-free)
                b_frag[i] = Bs[ty + 16 * i][k];
            }
            float a_frag[4];
            #pragma unroll
            for (int j = 0; j < 4; ++j) {
                // As[k][tx + 16 * j]: 1 wavefront, ideal 1 (conflict-free)
                a_frag[j] = As[k][tx + 16 * j];
            }
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                #pragma unroll
                for (int j = 0; j < 4; ++j) {
                    acc[i][j] += a_frag[j] * b_frag[i];
                }
            }
        }
        __syncthreads();
    }

    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int n = n0 + ty + 16 * i;
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int m = m0 + tx + 16 * j;
            if (n < N && m < M) {
                const float total = acc[i][j];
                // C[n * M + m]: 4 sectors, ideal 4 (128 bytes in 2 runs)
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
