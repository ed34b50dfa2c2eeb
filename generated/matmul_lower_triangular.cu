// matmul_lower_triangular: C = L·B with L lower triangular; elements above the diagonal are never read
//
// computes  C[m, n] = sum(L[m, k] * B[k, n], k, where=k <= m)
// params    M = 120, N = 75
// L         input, float32 [120, 120]
// B         input, float32 [120, 75]
// C         output, float32 [120, 75]
// launch    grid (3, 15, 1), block (32, 8, 1); family direct
// bounds    3 of 3 accesses proved
// analysis  sm_90: 3 accesses, 1 ideal, 2 costly
//           worst: C[m * N + n], 5 sectors, ideal 4; 4 on average (misaligned by 12 bytes)
//
// Made by cugen 0.1.0 from matmul_lower_triangular.yaml (hash 163faebee414c40c) for
// sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   L[m * M + k]  1 sector, ideal 1 (uniform address)

constexpr int M = 120;
constexpr int N = 75;

extern "C" __global__ void __launch_bounds__(256) matmul_lower_triangular(
    const float* __restrict__ L,
    const float* __restrict__ B,
    float* __restrict__ C)
{
    const int m = blockIdx.y * 8 + threadIdx.y;
    const int n = blockIdx.x * 32 + threadIdx.x;
    if (n >= N)
        return;

    float sum = 0.0f;
    for (int k = 0; k <= m; ++k) {
        const float l = L[m * M + k];
        // B[k * N + n]: 5 sectors, ideal 4; 4 on average (misaligned by 12 bytes)
        const float b = B[k * N + n];
        sum += l * b;
    }
    // C[m * N + n]: 5 sectors, ideal 4; 4 on average (misaligned by 12 bytes)
    C[m * N + n] = sum;
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t matmul_lower_triangular_launch(
    const float* L,
    const float* B,
    float* C,
    cudaStream_t stream)
{
    matmul_lower_triangular<<<dim3((N + 31) / 32, (M + 7) / 8), dim3(32, 8), 0, stream>>>(L, B, C);
    return cudaGetLastError();
}

#endif
