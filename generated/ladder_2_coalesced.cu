// ladder_2_coalesced: step 2: the lanes of a warp are along N, so that accesses of B and C are coalesced
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 256, N = 256, K = 256
// A         input, float32 [256, 256]
// B         input, float32 [256, 256]
// C         output, float32 [256, 256]
// launch    grid (8, 32, 1), block (32, 8, 1); family direct
// bounds    3 of 3 accesses proved
// analysis  sm_90: 3 accesses, 3 ideal
//
// Made by cugen 0.1.0 from product_ladder.yaml (hash 208eb79a1f78135f) for sm_90. Edit the spec, not this file.

constexpr int N = 256;
constexpr int K = 256;

extern "C" __global__ void __launch_bounds__(256) ladder_2_coalesced(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C)
{
    const int m = blockIdx.y * 8 + threadIdx.y;
    const int n = blockIdx.x * 32 + threadIdx.x;

    float sum = 0.0f;
    for (int k = 0; k < K; ++k) {
        // A[m * K + k]: 1 sector, ideal 1 (uniform address)
        const float a = A[m * K + k];
        // B[k * N + n]: 4 sectors, ideal 4 (128 contiguous bytes)
        const float b = B[k * N + n];
        sum += a * b;
    }
    // C[m * N + n]: 4 sectors, ideal 4 (128 contiguous bytes)
    C[m * N + n] = sum;
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int M = 256;

extern "C" cudaError_t ladder_2_coalesced_launch(
    const float* A,
    const float* B,
    float* C,
    cudaStream_t stream)
{
    ladder_2_coalesced<<<dim3((N + 31) / 32, (M + 7) / 8), dim3(32, 8), 0, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
