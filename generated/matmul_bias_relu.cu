// matmul_bias_relu: C = relu(A·B + bias), a dense layer; bias and relu are the epilogue, applied in registers
//
// computes  product[m, n] = sum(A[m, k] * B[k, n], k)
//           C[m, n] = relu(product[m, n] + bias[n])
// params    M = 70, K = 96, N = 100
// A         input, float32 [70, 96], shared
// B         input, float32 [96, 100], shared
// bias      input, float32 [100]
// C         output, float32 [70, 100]
// launch    grid (7, 5, 1), block (16, 16, 1), 2048 bytes of shared memory; family tiled
// bounds    8 of 8 accesses proved
// analysis  sm_90: 8 accesses, 6 ideal, 2 costly
//           worst: B[(k0 + ty) * N + n], 5 sectors, ideal 4; 4.57 on average (128 bytes in 2 runs)
//
// Made by cugen 0.1.0 from matmul_bias_relu.yaml (hash 4c16db40106eff77) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   A[m * K + k0 + tx]  4 sectors, ideal 4 (128 bytes in 2 runs)
//   As[ty][tx]          1 wavefront, ideal 1 (conflict-free)
//   Bs[ty][tx]          1 wavefront, ideal 1 (conflict-free)
//   As[ty][k]           1 wavefront, ideal 1 (conflict-free)
//   Bs[k][tx]           1 wavefront, ideal 1 (conflict-free)
//   bias[n]             2 sectors, ideal 2 (64 contiguous bytes)

constexpr int M = 70;
constexpr int K = 96;
constexpr int N = 100;

#ifndef CUGEN_MAXIMUM_FLOAT
#define CUGEN_MAXIMUM_FLOAT
// Maximum; NaN if an operand is NaN.
__device__ __forceinline__ float maximum(float a, float b)
{
#if __CUDA_ARCH__ >= 800
    float result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
#else
    return a > b || a != a ? a : b;
#endif
}
#endif

extern "C" __global__ void __launch_bounds__(256) matmul_bias_relu(
    const float* __restrict__ A,
    const float* __restrict__ B,
    const float* __restrict__ bias,
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
        As[ty][tx] = m < M ? A[m * K + k0 + tx] : 0.0f;
        // B[(k0 + ty) * N + n]: 5 sectors, ideal 4; 4.57 on average (128 bytes in 2 runs)
        Bs[ty][tx] = n < N ? B[(k0 + ty) * N + n] : 0.0f;
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            acc += As[ty][k] * Bs[k][tx];
        }
        __syncthreads();
    }

    if (m >= M || n >= N)
        return;
    const float bias_n = bias[n];
    // C[m * N + n]: 5 sectors, ideal 4; 4.57 on average (128 bytes in 2 runs)
    C[m * N + n] = maximum(acc + bias_n, 0.0f);
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t matmul_bias_relu_launch(
    const float* A,
    const float* B,
    const float* bias,
    float* C,
    cudaStream_t stream)
{
    matmul_bias_relu<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16), 0, stream>>>(A, B, bias, C);
    return cudaGetLastError();
}

#endif
