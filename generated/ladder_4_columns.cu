// ladder_4_columns: step 4: thread tile 8 × 1; each element of B that a thread loads is used 8 times
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 256, N = 256, K = 256
// A         input, float32 [256, 256], shared
// B         input, float32 [256, 256], shared
// C         output, float32 [256, 256]
// launch    grid (4, 4, 1), block (64, 8, 1), 4096 bytes of shared memory; family tiled
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
    __shared__ float As[64][8];
    __shared__ float Bs[8][64];

    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int m0 = blockIdx.y * 64;
    const int n0 = blockIdx.x * 64;

    float acc[8][1] = {};
    for (int k0 = 0; k0 < K; k0 += 8) {
        for (int element = tx + 64 * ty; element < 512; element += 512) {
            const int r = element / 8;
            const int c = element % 8;
            // A[(m0 + r) * K + k0 + c]: 4 sectors, ideal 4 (128 bytes in 4 runs)
            // As[r][c]: 1 wavefront, ideal 1 (conflict-free)
            As[r][c] = A[(m0 + r) * K + k0 + c];
        }
        // B[(k0 + ty) * N + n0 + tx]: 4 sectors, ideal 4 (128 contiguous bytes)
        // Bs[ty][tx]: 1 wavefront, ideal 1 (conflict-free)
        Bs[ty][tx] = B[(k0 + ty) * N + n0 + tx];
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < 8; ++k) {
            float a_frag[8];
            #pragma unroll
            for (int i = 0; i < 8; ++i) {
                // As[ty + 8 * i][k]: 1 wavefront, ideal 1 (one word: broadcast)
                a_frag[i] = As[ty + 8 * i][k];
            }
            float b_frag[1];
            #pragma unroll
            for (int j = 0; j < 1; ++j) {
                // Bs[k][tx + 64 * j]: 1 wavefront, ideal 1 (conflict-free)
                b_frag[j] = Bs[k][tx + 64 * j];
            }
            #pragma unroll
            for (int i = 0; i < 8; ++i) {
                #pragma unroll
                for (int j = 0; j < 1; ++j) {
                    acc[i][j] += a_frag[i] * b_frag[j];
                }
            }
        }
        __syncthreads();
    }

    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int m = m0 + ty + 8 * i;
        #pragma unroll
        for (int j = 0; j < 1; ++j) {
            const int n = n0 + tx + 64 * j;
            const float total = acc[i][j];
            // C[m * N + n]: 4 sectors, ideal 4 (128 contiguous bytes)
            C[m * N + n] = total;
        }
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
