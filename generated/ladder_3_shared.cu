// ladder_3_shared: step 3: block tiles of A and B in shared memory, where each element is loaded 32 times
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 256, N = 256, K = 256
// A         input, float32 [256, 256], shared
// B         input, float32 [256, 256], shared
// C         output, float32 [256, 256]
// launch    grid (8, 8, 1), block (32, 32, 1), 8192 bytes of shared memory; family tiled
// bounds    7 of 7 accesses proved
// analysis  sm_90: 7 accesses, 7 ideal
//
// Made by cugen 0.1.0 from product_ladder.yaml (hash 90915d82a9a00b81) for sm_90. Edit the spec, not this file.

constexpr int N = 256;
constexpr int K = 256;

extern "C" __global__ void __launch_bounds__(1024) ladder_3_shared(
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
        // A[m * K + k0 + tx]: 4 sectors, ideal 4 (128 contiguous bytes)
        // As[ty][tx]: 1 wavefront, ideal 1 (conflict-free)
        As[ty][tx] = A[m * K + k0 + tx];
        // B[(k0 + ty) * N + n]: 4 sectors, ideal 4 (128 contiguous bytes)
        // Bs[ty][tx]: 1 wavefront, ideal 1 (conflict-free)
        Bs[ty][tx] = B[(k0 + ty) * N + n];
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            // As[ty][k]: 1 wavefront, ideal 1 (one word: broadcast)
            // Bs[k][tx]: 1 wavefront, ideal 1 (conflict-free)
            acc += As[ty][k] * Bs[k][tx];
        }
        __syncthreads();
    }

    // C[m * N + n]: 4 sectors, ideal 4 (128 contiguous bytes)
    C[m * N + n] = acc;
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int M = 256;

extern "C" cudaError_t ladder_3_shared_launch(
    const float* A,
    const float* B,
    float* C,
    cudaStream_t stream)
{
    ladder_3_shared<<<dim3((N + 31) / 32, (M + 31) / 32), dim3(32, 32), 0, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
