// matmul_few_rows_down: Skinny GEMM with an N-major B; threads compute consecutive
// columns, the warps of a block split K
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 3, K = 192, N = 260
// A         input, float32 [3, 192], aligned to 16 bytes
// B         input, float32 [192, 260], aligned to 16 bytes
// C         output, float32 [3, 260]
// launch    grid (3, 1, 1), block (32, 8, 1), 4096 bytes of shared memory; family skinny
// bounds    8 of 8 accesses proved
// analysis  sm_90: 6 accesses, 4 ideal, 2 costly
//           worst: C[m * N + n_], 17 sectors, ideal 4; 11.22 on average (lanes 16 bytes apart)
//
// Made by cugen 0.1.0 from matmul_few_rows_down.yaml (hash 19a5f38dfff67dd3) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   A[i * K + k0]                             1 sector, ideal 1 (uniform address)
//   partials[threadIdx.y][j][threadIdx.x]     1 wavefront, ideal 1 (conflict-free)
//   partials[0][threadIdx.y][threadIdx.x]     1 wavefront, ideal 1 (conflict-free)
//   partials[warp][threadIdx.y][threadIdx.x]  1 wavefront, ideal 1 (conflict-free)

constexpr int K = 192;
constexpr int N = 260;

#ifndef CUGEN_VECTOR
#define CUGEN_VECTOR
// `count` elements, moved by one vector access.
template <typename T, int count>
struct alignas(count * sizeof(T)) Vector {
    T data[count];
};
#endif

#ifndef CUGEN_LOAD
#define CUGEN_LOAD
// Vector load of `count` elements.
template <int count, typename T>
__device__ __forceinline__ Vector<T, count> load(const T* address)
{
    return *reinterpret_cast<const Vector<T, count>*>(address);
}
#endif

extern "C" __global__ void __launch_bounds__(256) matmul_few_rows_down(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C)
{
    const int n0 = blockIdx.x * 128 + threadIdx.x * 4;

    float acc[3][4] = {};
    const int n = min(n0, N - 4);
    #pragma unroll 2
    for (int k0 = threadIdx.y * 4; k0 < K; k0 += 32) {
        Vector<float, 4> b_frag[4];
        #pragma unroll
        for (int dk = 0; dk < 4; ++dk) {
            // B[(k0 + dk) * N + n]: 17 sectors, ideal 16; 11.33 on average (misaligned by 16 bytes)
            b_frag[dk] = load<4>(&B[(k0 + dk) * N + n]);
        }
        #pragma unroll
        for (int i = 0; i < 3; ++i) {
            const auto a_frag = load<4>(&A[i * K + k0]);
            #pragma unroll
            for (int dk = 0; dk < 4; ++dk) {
                #pragma unroll
                for (int j = 0; j < 4; ++j) {
                    acc[i][j] += a_frag.data[dk] * b_frag[dk].data[j];
                }
            }
        }
    }

    __shared__ float partials[8][4][32];
    #pragma unroll
    for (int i = 0; i < 3; ++i) {
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
            partials[threadIdx.y][j][threadIdx.x] = acc[i][j];
        }
        __syncthreads();
        if (threadIdx.y < 4 && n0 < N) {
            float total = partials[0][threadIdx.y][threadIdx.x];
            #pragma unroll
            for (int warp = 1; warp < 8; ++warp) {
                total += partials[warp][threadIdx.y][threadIdx.x];
            }
            const int n_ = n0 + threadIdx.y;
            const int m = i;
            // C[m * N + n_]: 17 sectors, ideal 4; 11.22 on average (lanes 16 bytes apart)
            C[m * N + n_] = total;
        }
        __syncthreads();
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t matmul_few_rows_down_launch(
    const float* A,
    const float* B,
    float* C,
    cudaStream_t stream)
{
    matmul_few_rows_down<<<dim3((N + 127) / 128), dim3(32, 8), 0, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
