// gemm_f16: C = Aᵀ·B + C on half-precision matrices with sums in float32, on CUDA cores
//
// computes  C[m, n] += sum(A[k, m] * B[k, n], k)
// params    M = 128, K = 48, N = 136
// A         input, float16 [48, 128], aligned to 16 bytes
// B         input, float16 [48, 136], aligned to 16 bytes
// C         inout, float16 [128, 136], aligned to 16 bytes
// launch    grid (3, 4, 1), block (32, 1, 1), 6144 bytes of shared memory; family gemm
// analysis  sm_90: 16 accesses, 8 ideal, 4 costly, 4 unknown
//           worst: b_from[(16 * stage + r) * N], 18 sectors, ideal 16; 13.33 on average (512 bytes in 4 runs)
//
// Made by cugen 0.1.0 from gemm_f16.yaml (hash 127bb10c343b572d) for sm_90. Edit the spec, not this file.

#include <cuda_fp16.h>
#include <cuda_pipeline_primitives.h>

constexpr int M = 128;
constexpr int K = 48;
constexpr int N = 136;

#ifndef CUGEN_VECTOR
#define CUGEN_VECTOR
// `count` elements that one access moves.
template <typename T, int count>
struct alignas(count * sizeof(T)) Vector {
    T at[count];
};
#endif

extern "C" __global__ void __launch_bounds__(32) gemm_f16(
    const __half* __restrict__ A,
    const __half* __restrict__ B,
    __half* __restrict__ C)
{
    // a ring of 2 stages, in which k is slow: k-major
    __shared__ __align__(16) __half As[2][16][32];
    __shared__ __align__(16) __half Bs[2][16][64];

    const int m0 = blockIdx.y * 32;
    const int n0 = blockIdx.x * 64;
    const int thread = threadIdx.x;
    const int lane = thread;
    // the warp's share is 32 x 64
    // its lanes lie 4 x 8, neighbours so that pairs read alike
    const int lane_row = 2 * (lane / 16) + lane % 2;
    const int lane_column = lane / 2 % 8;
    const int row = 8 * lane_row;
    const int column = 8 * lane_column;
    const int a_k = thread / 4;
    const int a_m = 8 * (thread % 4);
    const int b_k = thread / 8;
    const int b_n = 8 * (thread % 8);

    float sum[8][8] = {};

    const __half* a_from = &A[a_k * M + m0 + a_m];
    const __half* b_from = &B[b_k * N + n0 + b_n];
    #pragma unroll
    for (int stage = 0; stage < 1; ++stage) {
        #pragma unroll
        for (int r = 0; r < 16; r += 8) {
            // a_from[(16 * stage + r) * M]: 16 sectors, ideal 16 (512 bytes in 8 runs)
            // As[stage][a_k + r][a_m]: unknown: its warps may copy from different parts of lines of 128 bytes
            __pipeline_memcpy_async(&As[stage][a_k + r][a_m], &a_from[(16 * stage + r) * M], 16);
        }
        #pragma unroll
        for (int r = 0; r < 16; r += 4) {
            // b_from[(16 * stage + r) * N]: 18 sectors, ideal 16; 13.33 on average (512 bytes in 4 runs)
            // Bs[stage][b_k + r][b_n]: unknown: its warps may copy from different parts of lines of 128 bytes
            __pipeline_memcpy_async(&Bs[stage][b_k + r][b_n], &b_from[(16 * stage + r) * N], 16, n0 + b_n < N
                ? 0 : 16);
        }
        __pipeline_commit();
    }

    __pipeline_wait_prior(0);
    __syncthreads();
    // the values of one k and of the next: one is multiplied while the other is read
    Vector<__half, 8> a8[2];
    Vector<__half, 8> b8[2];
    // As[0][0][row]: 2 wavefronts, ideal 2 (16 words, in different banks)
    a8[0] = *reinterpret_cast<const Vector<__half, 8>*>(&As[0][0][row]);
    // Bs[0][0][column]: 2 wavefronts, ideal 2 (32 words, in different banks)
    b8[0] = *reinterpret_cast<const Vector<__half, 8>*>(&Bs[0][0][column]);
    for (int k0 = 0, current = 0; k0 < K; k0 += 16, current = 1 - current) {
        const int next = 1 - current;
        // behind the end of the sum its last step is copied again
        const int ahead = min(k0 + 16, K - 16);
        #pragma unroll
        for (int r = 0; r < 16; r += 8) {
            // a_from[(r + ahead) * M]: 16 sectors, ideal 16 (512 bytes in 8 runs)
            // As[next][a_k + r][a_m]: unknown: its warps may copy from different parts of lines of 128 bytes
            __pipeline_memcpy_async(&As[next][a_k + r][a_m], &a_from[(r + ahead) * M], 16);
        }
        #pragma unroll
        for (int r = 0; r < 16; r += 4) {
            // b_from[(r + ahead) * N]: 18 sectors, ideal 16; 13.33 on average (512 bytes in 4 runs)
            // Bs[next][b_k + r][b_n]: unknown: its warps may copy from different parts of lines of 128 bytes
            __pipeline_memcpy_async(&Bs[next][b_k + r][b_n], &b_from[(r + ahead) * N], 16, n0 + b_n < N ? 0
                : 16);
        }
        __pipeline_commit();
        #pragma unroll
        for (int k = 1; k < 16; ++k) {
            // As[current][k][row]: 2 wavefronts, ideal 2 (16 words, in different banks)
            a8[k % 2] = *reinterpret_cast<const Vector<__half, 8>*>(&As[current][k][row]);
            // Bs[current][k][column]: 2 wavefronts, ideal 2 (32 words, in different banks)
            b8[k % 2] = *reinterpret_cast<const Vector<__half, 8>*>(&Bs[current][k][column]);
            #pragma unroll
            for (int i = 0; i < 8; ++i) {
                #pragma unroll
                for (int t = 0; t < 8; ++t) {
                    // serpentine: every other row is walked backwards
                    const int j = i % 2 * (7 - 2 * t) + t;
                    sum[i][j] += __half2float(a8[(k + 1) % 2].at[i]) * __half2float(b8[(k + 1) % 2].at[j]);
                }
            }
        }
        __pipeline_wait_prior(0);
        __syncthreads();
        // what follows the last step is read in vain
        const int following = 1 - current;
        // As[following][0][row]: 2 wavefronts, ideal 2 (16 words, in different banks)
        a8[0] = *reinterpret_cast<const Vector<__half, 8>*>(&As[following][0][row]);
        // Bs[following][0][column]: 2 wavefronts, ideal 2 (32 words, in different banks)
        b8[0] = *reinterpret_cast<const Vector<__half, 8>*>(&Bs[following][0][column]);
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
            #pragma unroll
            for (int t = 0; t < 8; ++t) {
                // serpentine: every other row is walked backwards
                const int j = i % 2 * (7 - 2 * t) + t;
                sum[i][j] += __half2float(a8[1].at[i]) * __half2float(b8[1].at[j]);
            }
        }
    }

    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int m = m0 + row + i;
        const int n = n0 + column;
        if (n < N) {
            // C[m * N + n]: 20 sectors, ideal 16; 13.33 on average (512 bytes in 4 runs)
            const auto c_old8 = *reinterpret_cast<const Vector<__half, 8>*>(&C[m * N + n]);
            Vector<__half, 8> c8;
            #pragma unroll
            for (int v = 0; v < 8; ++v) {
                c8.at[v] = __float2half_rn(__half2float(c_old8.at[v]) + sum[i][v]);
            }
            // C[m * N + n]: 20 sectors, ideal 16; 13.33 on average (512 bytes in 4 runs)
            *reinterpret_cast<Vector<__half, 8>*>(&C[m * N + n]) = c8;
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t gemm_f16_launch(
    const __half* A,
    const __half* B,
    __half* C,
    cudaStream_t stream)
{
    gemm_f16<<<dim3((N + 63) / 64, (M + 31) / 32), dim3(32), 0, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
