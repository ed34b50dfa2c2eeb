// matmul_dynamic_shared: C = A·B with tiles in `extern __shared__`, which may be larger than
// the 48 KB of static shared memory
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 100, K = 130, N = 140
// A         input, float32 [100, 130], shared
// B         input, float32 [130, 140], shared
// C         output, float32 [100, 140]
// launch    grid (5, 4, 1), block (32, 32, 1), 8320 bytes of dynamic shared memory; family tiled
// bounds    7 of 7 accesses proved
// analysis  sm_90: 7 accesses, 4 ideal, 3 costly
//           worst: A[m * K + k0 + tx], 5 sectors, ideal 4; 4 on average (misaligned by 8 bytes)
//
// Made by cugen 0.1.0 from matmul_dynamic_shared.yaml (hash 7dd5ab814c249891) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   As[ty][tx]  1 wavefront, ideal 1 (conflict-free)
//   Bs[ty][tx]  1 wavefront, ideal 1 (conflict-free)
//   As[ty][k]   1 wavefront, ideal 1 (one word: broadcast)
//   Bs[k][tx]   1 wavefront, ideal 1 (conflict-free)

constexpr int M = 100;
constexpr int K = 130;
constexpr int N = 140;

extern "C" __global__ void __launch_bounds__(1024) matmul_dynamic_shared(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C)
{
    extern __shared__ __align__(16) unsigned char shared_memory[];

    constexpr int BM = 32, BN = 32, BK = 32;

    float (*As)[BK + 1] = reinterpret_cast<float (*)[BK + 1]>(shared_memory);
    float (*Bs)[BN] = reinterpret_cast<float (*)[BN]>(As + BM);

    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int m0 = blockIdx.y * BM;
    const int n0 = blockIdx.x * BN;
    const int m = m0 + ty;
    const int n = n0 + tx;

    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += BK) {
        // A[m * K + k0 + tx]: 5 sectors, ideal 4; 4 on average (misaligned by 8 bytes)
        As[ty][tx] = m < M && k0 + tx < K ? A[m * K + k0 + tx] : 0.0f;
        // B[(k0 + ty) * N + n]: 5 sectors, ideal 4; 4 on average (misaligned by 16 bytes)
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
    // C[m * N + n]: 5 sectors, ideal 4; 4 on average (misaligned by 16 bytes)
    C[m * N + n] = acc;
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t matmul_dynamic_shared_launch(
    const float* A,
    const float* B,
    float* C,
    cudaStream_t stream)
{
    cudaFuncSetAttribute(matmul_dynamic_shared, cudaFuncAttributePreferredSharedMemoryCarveout, 100);
    matmul_dynamic_shared<<<dim3((N + 31) / 32, (M + 31) / 32), dim3(32, 32), 8320, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
