// tensor_ladder_1_naive: step 1: one thread per output on CUDA cores, with the lanes of a warp along N
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 128, N = 256, K = 96
// A         input, bfloat16 [128, 96]
// B         input, bfloat16 [96, 256]
// C         output, bfloat16 [128, 256]
// launch    grid (8, 16, 1), block (32, 8, 1); family direct
// bounds    3 of 3 accesses proved
// analysis  sm_90: 3 accesses, 3 ideal
//
// Made by cugen 0.1.0 from product_ladder_bf16.yaml (hash 0ebd3f3f13e18c5b) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   A[m * K + k]  1 sector, ideal 1 (uniform address)
//   B[k * N + n]  2 sectors, ideal 2 (64 contiguous bytes)
//   C[m * N + n]  2 sectors, ideal 2 (64 contiguous bytes)

#include <cuda_bf16.h>

constexpr int N = 256;
constexpr int K = 96;

extern "C" __global__ void __launch_bounds__(256) tensor_ladder_1_naive(
    const __nv_bfloat16* __restrict__ A,
    const __nv_bfloat16* __restrict__ B,
    __nv_bfloat16* __restrict__ C)
{
    const int m = blockIdx.y * 8 + threadIdx.y;
    const int n = blockIdx.x * 32 + threadIdx.x;

    float sum = 0.0f;
    for (int k = 0; k < K; ++k) {
        const float a = __bfloat162float(A[m * K + k]);
        const float b = __bfloat162float(B[k * N + n]);
        sum += a * b;
    }
    C[m * N + n] = __float2bfloat16_rn(sum);
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int M = 128;

extern "C" cudaError_t tensor_ladder_1_naive_launch(
    const __nv_bfloat16* A,
    const __nv_bfloat16* B,
    __nv_bfloat16* C,
    cudaStream_t stream)
{
    tensor_ladder_1_naive<<<dim3((N + 31) / 32, (M + 7) / 8), dim3(32, 8), 0, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
