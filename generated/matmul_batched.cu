// matmul_batched: Z products of small matrices, C[z] = A[z]·B[z]
//
// computes  C[z, m, n] = sum(A[z, m, k] * B[z, k, n], k)
// params    Z = 12, M = 33, K = 20, N = 40
// A         input, float32 [12, 33, 20], aligned to 16 bytes
// B         input, float32 [12, 20, 40], aligned to 16 bytes
// C         output, float32 [12, 33, 40], aligned to 8 bytes
// launch    grid (12, 1, 1), block (50, 1, 1), 6000 bytes of shared memory; family batched
// analysis  sm_90: 7 accesses, 4 ideal, 2 costly, 1 assumed
//           worst: C[(z * M + m) * N + n], 10 sectors, ideal 8; 7.85 on average (256 bytes in 4 runs)
//
// Made by cugen 0.1.0 from matmul_batched.yaml (hash ef1d7450dc29b193) for sm_90. Edit the spec, not this file.

constexpr int M = 33;
constexpr int K = 20;
constexpr int N = 40;

#ifndef CUGEN_VECTOR
#define CUGEN_VECTOR
// `count` elements that one access moves.
template <typename T, int count>
struct alignas(count * sizeof(T)) Vector {
    T at[count];
};
#endif

extern "C" __global__ void __launch_bounds__(50) matmul_batched(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C)
{
    __shared__ __align__(16) float As[35][20];
    __shared__ __align__(16) float Bs[20][40];

    const int ty = threadIdx.x / 10;
    const int tx = threadIdx.x % 10;
    const int z = blockIdx.x;

    #pragma unroll
    for (int u = 0; u < 4; ++u) {
        const int part = threadIdx.x + 50 * u;
        if (part < 165) {
            const int line = part / 5;
            const int place = 4 * (part % 5);
            // A[(z * M + line) * K + place]: 17 sectors, ideal 16; 12.29 on average (starts 16 bytes into a sector)
            // As[line][place]: 4 wavefronts, ideal 4 (128 words over 32 banks)
            *reinterpret_cast<Vector<float, 4>*>(&As[line][place]) = *reinterpret_cast<const Vector<float, 4>*>(&A[(z * M + line) * K + place]);
        }
    }
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
        const int part = threadIdx.x + 50 * u;
        const int line_ = part / 10;
        const int place_ = 4 * (part % 10);
        // B[(z * K + line_) * N + place_]: 16 sectors, ideal 16 (512 bytes side by side)
        // Bs[line_][place_]: 4 wavefronts, ideal 4 (128 words over 32 banks)
        *reinterpret_cast<Vector<float, 4>*>(&Bs[line_][place_]) = *reinterpret_cast<const Vector<float, 4>*>(&B[(z * K + line_) * N + place_]);
    }
    __syncthreads();

    float sum[7][4] = {};
    #pragma unroll
    for (int k0 = 0; k0 < 20; k0 += 4) {
        Vector<float, 4> a4[7];
        #pragma unroll
        for (int i = 0; i < 7; ++i) {
            // As[ty + 5 * i][k0]: 2 wavefronts, ideal 2 (16 words, in different banks)
            a4[i] = *reinterpret_cast<const Vector<float, 4>*>(&As[ty + 5 * i][k0]);
        }
        #pragma unroll
        for (int d = 0; d < 4; ++d) {
            Vector<float, 2> b2[2];
            #pragma unroll
            for (int c = 0; c < 2; ++c) {
                // Bs[k0 + d][2 * tx + 20 * c]: 2 wavefronts, ideal 2 (20 words, in different banks)
                b2[c] = *reinterpret_cast<const Vector<float, 2>*>(&Bs[k0 + d][2 * tx + 20 * c]);
            }
            #pragma unroll
            for (int i = 0; i < 7; ++i) {
                #pragma unroll
                for (int j = 0; j < 4; ++j) {
                    sum[i][j] += a4[i].at[d] * b2[j / 2].at[j % 2];
                }
            }
        }
    }

    #pragma unroll
    for (int i = 0; i < 7; ++i) {
        const int m = ty + 5 * i;
        #pragma unroll
        for (int c = 0; c < 2; ++c) {
            const int n = 2 * tx + 20 * c;
            if (m < M) {
                Vector<float, 2> c2;
                #pragma unroll
                for (int v = 0; v < 2; ++v) {
                    c2.at[v] = sum[i][2 * c + v];
                }
                // C[(z * M + m) * N + n]: 10 sectors, ideal 8; 7.85 on average (256 bytes in 4 runs)
                *reinterpret_cast<Vector<float, 2>*>(&C[(z * M + m) * N + n]) = c2;
            }
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int Z = 12;

extern "C" cudaError_t matmul_batched_launch(
    const float* A,
    const float* B,
    float* C,
    cudaStream_t stream)
{
    matmul_batched<<<dim3(Z), dim3(50), 0, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
