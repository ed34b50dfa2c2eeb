// gemm_int8: C = A·B on 8-bit integers with 32-bit sums; N is given when it is called
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 40, K = 24, N
// A         input, int8 [40, 24]
// B         input, int8 [24, N], aligned to 16 bytes
// C         output, int32 [40, N], aligned to 16 bytes
// launch    grid ((N + 31) // 32, 3, 1), block (32, 1, 1), 3072 bytes of shared memory; family gemm
// analysis  sm_90: 12 accesses, 7 ideal, 4 costly, 1 unknown
//           worst: As[stage][a_k][a_m + c], 4 wavefronts, ideal 1; 3 on average (at any N)
//
// Made by cugen 0.1.0 from gemm_int8.yaml (hash 4f077448f36340d6) for sm_90. Edit the spec, not this file.

#include <cuda_pipeline_primitives.h>

constexpr int M = 40;
constexpr int K = 24;

#ifndef CUGEN_VECTOR
#define CUGEN_VECTOR
// `count` elements that one access moves.
template <typename T, int count>
struct alignas(count * sizeof(T)) Vector {
    T at[count];
};
#endif

#ifndef CUGEN_WRAPPING_ADD_INT
#define CUGEN_WRAPPING_ADD_INT
// a + b modulo 2^32: C++ leaves the overflow of signed integers undefined.
__device__ __forceinline__ int wrapping_add(int a, int b)
{
    return (int)((unsigned int)a + (unsigned int)b);
}
#endif

extern "C" __global__ void __launch_bounds__(32) gemm_int8(
    const signed char* __restrict__ A,
    const signed char* __restrict__ B,
    int* __restrict__ C,
    int N)
{
    // a ring of 3 stages, in which k is slow: k-major
    __shared__ __align__(16) signed char As[3][16][32];
    __shared__ __align__(16) signed char Bs[3][16][32];

    const int m0 = min(blockIdx.y * 16, M - 16);
    const int n0 = blockIdx.x * 32;
    const int thread = threadIdx.x;
    const int lane = thread;
    // the warp's share is 16 x 32
    // its lanes lie 4 x 8, neighbours so that pairs read alike
    const int lane_row = 2 * (lane / 16) + lane % 2;
    const int lane_column = lane / 2 % 8;
    const int row = 4 * lane_row;
    const int column = 4 * lane_column;
    const int a_k = thread % 16;
    const int a_m = thread / 16;
    const int b_k = thread / 2;
    const int b_n = 16 * (thread % 2);

    int sum[4][4] = {};

    const signed char* a_from = &A[(m0 + a_m) * K + a_k - 8];
    const signed char* b_from = &B[(b_k - 8) * N + n0 + b_n];
    #pragma unroll
    for (int stage = 0; stage < 2; ++stage) {
        #pragma unroll
        for (int c = 0; c < 16; c += 2) {
            if (a_k + 16 * stage - 8 >= 0) {
                // a_from[c * K + 16 * stage]: 2 sectors, ideal 1; 1.75 on average (at any N)
                // As[stage][a_k][a_m + c]: 4 wavefronts, ideal 1; 3 on average (at any N)
                As[stage][a_k][a_m + c] = a_from[c * K + 16 * stage];
            } else {
                // As[stage][a_k][a_m + c]: 2 wavefronts, ideal 1 (at any N)
                As[stage][a_k][a_m + c] = 0;
            }
        }
        // b_from[16 * stage * N]: 24 sectors, ideal 16 (worst at N mod 32 = 16)
        // Bs[stage][b_k][b_n]: unknown: its warps may copy from different parts of lines of 128 bytes
        __pipeline_memcpy_async(&Bs[stage][b_k][b_n], &b_from[16 * stage * N], 16, b_k + 16 * stage - 8 >= 0
            && n0 + b_n < N ? 0 : 16);
        __pipeline_commit();
    }

    __pipeline_wait_prior(1);
    __syncthreads();
    // the values of one k and of the next: one is multiplied while the other is read
    Vector<signed char, 4> a4[2];
    Vector<signed char, 4> b4[2];
    // As[0][0][row]: 1 wavefront, ideal 1 (at any N)
    a4[0] = *reinterpret_cast<const Vector<signed char, 4>*>(&As[0][0][row]);
    // Bs[0][0][column]: 1 wavefront, ideal 1 (at any N)
    b4[0] = *reinterpret_cast<const Vector<signed char, 4>*>(&Bs[0][0][column]);
    for (int k0 = 0; k0 < K + 8; k0 += 16) {
        const int current = k0 / 16;
        __pipeline_commit();
        #pragma unroll
        for (int k = 1; k < 16; ++k) {
            // As[current][k][row]: 1 wavefront, ideal 1 (at any N)
            a4[k % 2] = *reinterpret_cast<const Vector<signed char, 4>*>(&As[current][k][row]);
            // Bs[current][k][column]: 1 wavefront, ideal 1 (at any N)
            b4[k % 2] = *reinterpret_cast<const Vector<signed char, 4>*>(&Bs[current][k][column]);
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                #pragma unroll
                for (int t = 0; t < 4; ++t) {
                    // serpentine: every other row is walked backwards
                    const int j = i % 2 * (3 - 2 * t) + t;
                    sum[i][j] = wrapping_add(sum[i][j], a4[(k + 1) % 2].at[i] * b4[(k + 1) % 2].at[j]);
                }
            }
        }
        __pipeline_wait_prior(1);
        __syncthreads();
        // what follows the last step is read in vain
        const int following = k0 / 16 + 1;
        // As[following][0][row]: 1 wavefront, ideal 1 (at any N)
        a4[0] = *reinterpret_cast<const Vector<signed char, 4>*>(&As[following][0][row]);
        // Bs[following][0][column]: 1 wavefront, ideal 1 (at any N)
        b4[0] = *reinterpret_cast<const Vector<signed char, 4>*>(&Bs[following][0][column]);
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            #pragma unroll
            for (int t = 0; t < 4; ++t) {
                // serpentine: every other row is walked backwards
                const int j = i % 2 * (3 - 2 * t) + t;
                sum[i][j] = wrapping_add(sum[i][j], a4[1].at[i] * b4[1].at[j]);
            }
        }
    }

    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int m = m0 + row + i;
        const int n = n0 + column;
        if (n < N) {
            Vector<int, 4> c4;
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                c4.at[v] = sum[i][v];
            }
            // C[m * N + n]: 16 sectors, ideal 16 (at any N)
            *reinterpret_cast<Vector<int, 4>*>(&C[m * N + n]) = c4;
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t gemm_int8_launch(
    const signed char* A,
    const signed char* B,
    int* C,
    int N,
    cudaStream_t stream)
{
    if (N < 1 || N > 65536 || N % 16 != 0)
        return cudaErrorInvalidValue;
    gemm_int8<<<dim3((N + 31) / 32, (M + 15) / 16), dim3(32), 0, stream>>>(A, B, C, N);
    return cudaGetLastError();
}

#endif
