// transpose_f64_kepler: B = Aᵀ of doubles on a Kepler GPU, whose banks of shared memory can be 8 bytes wide
//
// computes  B[n, m] = A[m, n]
// params    M = 300, N = 200
// A         input, float64 [300, 200], shared
// B         output, float64 [200, 300]
// launch    grid (10, 7, 1), block (32, 8, 1), 8448 bytes of shared memory; family transpose
// bounds    4 of 4 accesses proved
// analysis  sm_35: 4 accesses, 4 ideal
//
// Made by cugen 0.1.0 from transpose_f64_kepler.yaml (hash dfe9107471ce439e) for sm_35. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   A[m_in * N + n_in]  8 sectors, ideal 8 (256 contiguous bytes)
//   tile[ty + r][tx]    1 wavefront, ideal 1 (64 words over 32 banks)
//   tile[tx][ty + r]    1 wavefront, ideal 1 (64 words over 32 banks)
//   B[n * M + m]        8 sectors, ideal 8 (256 contiguous bytes)

constexpr int M = 300;
constexpr int N = 200;

extern "C" __global__ void __launch_bounds__(256) transpose_f64_kepler(
    const double* __restrict__ A,
    double* __restrict__ B)
{
    __shared__ double tile[32][33];

    const int m0 = blockIdx.x * 32;
    const int n0 = blockIdx.y * 32;
    const int tx = threadIdx.x;
    const int ty = threadIdx.y;

    const int n_in = n0 + tx;
    if (n_in < N) {
        #pragma unroll
        for (int r = 0; r < 32; r += 8) {
            const int m_in = m0 + ty + r;
            if (m_in < M) {
                tile[ty + r][tx] = A[m_in * N + n_in];
            }
        }
    }
    __syncthreads();

    const int m = m0 + tx;
    if (m < M) {
        #pragma unroll
        for (int r = 0; r < 32; r += 8) {
            const int n = n0 + ty + r;
            if (n < N) {
                B[n * M + m] = tile[tx][ty + r];
            }
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t transpose_f64_kepler_launch(
    const double* A,
    double* B,
    cudaStream_t stream)
{
#if CUDART_VERSION < 13000
    cudaFuncSetSharedMemConfig(transpose_f64_kepler, cudaSharedMemBankSizeEightByte);
#endif
    transpose_f64_kepler<<<dim3((M + 31) / 32, (N + 31) / 32), dim3(32, 8), 0, stream>>>(A, B);
    return cudaGetLastError();
}

#endif
