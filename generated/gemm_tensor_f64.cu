// gemm_tensor_f64: a product in double precision on tensor cores; while one pair of fragments is multiplied, the next is on its way
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 128, K = 64, N = 96
// A         input, float64 [128, 64], aligned to 16 bytes
// B         input, float64 [64, 96], aligned to 16 bytes
// C         output, float64 [128, 96], aligned to 16 bytes
// launch    grid (3, 2, 1), block (128, 1, 1), 38400 bytes of shared memory; family gemm
// analysis  sm_90: 15 accesses, 13 ideal, 2 costly
//           worst: Bs[stage][b_k + r][b_n], 8 wavefronts, ideal 4; 7 on average (8 lanes copy from 1 line to 2)
//
// Made by cugen 0.1.0 from gemm_tensor_f64.yaml (hash ccb5bb288cbe7e9b) for sm_90. Edit the spec, not this file.

#include <cuda_pipeline_primitives.h>

constexpr int K = 64;
constexpr int N = 96;

#ifndef CUGEN_MULTIPLY_16X8X4
#define CUGEN_MULTIPLY_16X8X4
// Adds the product of 16 x 4 and 4 x 8 elements to 16 x 8 sums, on a tensor core, for all lanes of a warp at once.
// Lane 4 * g + t holds rows g and g + 8 of the one in column t, column g of the other in row t,
// and the sums in columns 2 * t and 2 * t + 1 of rows g (`upper`) and g + 8 (`lower`).
__device__ __forceinline__ void multiply_16x8x4(
    double* upper, double* lower, const double (&a)[2], const double (&b)[1])
{
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, "
        "{%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+d"(upper[0]), "+d"(upper[1]), "+d"(lower[0]), "+d"(lower[1])
        : "d"(a[0]), "d"(a[1]),
          "d"(b[0]));
#else
    asm volatile(
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(upper[0]), "+d"(upper[1])
        : "d"(a[0]), "d"(b[0]));
    asm volatile(
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(lower[0]), "+d"(lower[1])
        : "d"(a[1]), "d"(b[0]));
#endif
}
#endif

#ifndef CUGEN_VECTOR
#define CUGEN_VECTOR
// `count` elements that one access moves.
template <typename T, int count>
struct alignas(count * sizeof(T)) Vector {
    T at[count];
};
#endif

extern "C" __global__ void __launch_bounds__(128) gemm_tensor_f64(
    const double* __restrict__ A,
    const double* __restrict__ B,
    double* __restrict__ C)
{
    // a ring of 3 stages, of tiles that lie as the operands do
    __shared__ __align__(16) double As[3][64][16];
    __shared__ __align__(16) double Bs[3][16][36];

    const int m0 = blockIdx.y * 64;
    const int n0 = blockIdx.x * 32;
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    const int warp = thread / 32;
    // the warp's share is 32 x 16
    // its lanes lie 8 x 4, as tensor cores have them
    const int lane_row = lane / 4;
    const int lane_column = lane % 4;
    const int row = 32 * (warp / 2) + lane_row;
    const int column = 16 * (warp % 2) + 2 * lane_column;
    const int read_n = 16 * (warp % 2) + lane_row;
    const int a_k = 2 * (thread % 8);
    const int a_m = thread / 8;
    const int a_turn = 4 * (lane_row % 4);
    const int a_at = a_k ^ (4 * (a_m % 4));
    const int b_k = thread / 16;
    const int b_n = 2 * (thread % 16);

    double sum[4][4] = {};

    const double* a_from = &A[(m0 + a_m) * K + a_k];
    const double* b_from = &B[b_k * N + n0 + b_n];
    #pragma unroll
    for (int stage = 0; stage < 2; ++stage) {
        #pragma unroll
        for (int c = 0; c < 64; c += 16) {
            // a_from[c * K + 16 * stage]: 16 sectors, ideal 16 (512 bytes in 4 runs)
            // As[stage][a_m + c][a_at]: 4 wavefronts, ideal 4 (128 words over 32 banks)
            __pipeline_memcpy_async(&As[stage][a_m + c][a_at], &a_from[c * K + 16 * stage], 16);
        }
        #pragma unroll
        for (int r = 0; r < 16; r += 8) {
            // b_from[(16 * stage + r) * N]: 16 sectors, ideal 16 (512 bytes in 2 runs)
            // Bs[stage][b_k + r][b_n]: 8 wavefronts, ideal 4; 7 on average (8 lanes copy from 1 line to 2)
            __pipeline_memcpy_async(&Bs[stage][b_k + r][b_n], &b_from[(16 * stage + r) * N], 16);
        }
        __pipeline_commit();
    }

    __pipeline_wait_prior(1);
    __syncthreads();
    // fragments of tiles, of some k and of the next: one is multiplied while the other is read
    double a[2][2][2];
    double b[2][2][1];
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        #pragma unroll
        for (int h = 0; h < 2; ++h) {
            // As[0][row + 16 * i + 8 * h][lane_column + a_turn]: 2 wavefronts, ideal 2 (64 words over 32 banks)
            a[0][i][h] = As[0][row + 16 * i + 8 * h][lane_column + a_turn];
        }
    }
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
        // Bs[0][lane_column][read_n + 8 * j]: 2 wavefronts, ideal 2 (64 words over 32 banks)
        b[0][j][0] = Bs[0][lane_column][read_n + 8 * j];
    }
    for (int k0 = 0, current = 0; k0 < K; k0 += 16, current = current < 2 ? current + 1 : 0) {
        const int next = current > 0 ? current - 1 : 2;
        // behind the end of the sum its last step is copied again
        const int ahead = min(k0 + 32, K - 16);
        #pragma unroll
        for (int c = 0; c < 64; c += 16) {
            // a_from[c * K + ahead]: 16 sectors, ideal 16 (512 bytes in 4 runs)
            // As[next][a_m + c][a_at]: 4 wavefronts, ideal 4 (128 words over 32 banks)
            __pipeline_memcpy_async(&As[next][a_m + c][a_at], &a_from[c * K + ahead], 16);
        }
        #pragma unroll
        for (int r = 0; r < 16; r += 8) {
            // b_from[(r + ahead) * N]: 16 sectors, ideal 16 (512 bytes in 2 runs)
            // Bs[next][b_k + r][b_n]: 8 wavefronts, ideal 4; 7 on average (8 lanes copy from 1 line to 2)
            __pipeline_memcpy_async(&Bs[next][b_k + r][b_n], &b_from[(r + ahead) * N], 16);
        }
        __pipeline_commit();
        #pragma unroll
        for (int k = 4; k < 16; k += 4) {
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                #pragma unroll
                for (int h = 0; h < 2; ++h) {
                    // As[current][row + 16 * i + 8 * h][lane_column + (k ^ a_turn)]: 2 wavefronts, ideal 2 (64 words over 32 banks)
                    a[k / 4 % 2][i][h] = As[current][row + 16 * i + 8 * h][lane_column + (k ^ a_turn)];
                }
            }
            #pragma unroll
            for (int j = 0; j < 2; ++j) {
                // Bs[current][lane_column + k][read_n + 8 * j]: 2 wavefronts, ideal 2 (64 words over 32 banks)
                b[k / 4 % 2][j][0] = Bs[current][lane_column + k][read_n + 8 * j];
            }
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                #pragma unroll
                for (int j = 0; j < 2; ++j) {
                    multiply_16x8x4(&sum[2 * i][2 * j], &sum[2 * i + 1][2 * j], a[(k / 4 + 1) % 2][i],
                        b[(k / 4 + 1) % 2][j]);
                }
            }
        }
        __pipeline_wait_prior(1);
        __syncthreads();
        // what follows the last step is read in vain
        const int following = current < 2 ? current + 1 : 0;
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
            #pragma unroll
            for (int h = 0; h < 2; ++h) {
                // As[following][row + 16 * i + 8 * h][lane_column + a_turn]: 2 wavefronts, ideal 2 (64 words over 32 banks)
                a[0][i][h] = As[following][row + 16 * i + 8 * h][lane_column + a_turn];
            }
        }
        #pragma unroll
        for (int j = 0; j < 2; ++j) {
            // Bs[following][lane_column][read_n + 8 * j]: 2 wavefronts, ideal 2 (64 words over 32 banks)
            b[0][j][0] = Bs[following][lane_column][read_n + 8 * j];
        }
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
            #pragma unroll
            for (int j = 0; j < 2; ++j) {
                multiply_16x8x4(&sum[2 * i][2 * j], &sum[2 * i + 1][2 * j], a[1][i], b[1][j]);
            }
        }
    }

    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int m = m0 + row + 8 * i;
        #pragma unroll
        for (int g = 0; g < 2; ++g) {
            const int n = n0 + column + 8 * g;
            Vector<double, 2> c2;
            #pragma unroll
            for (int v = 0; v < 2; ++v) {
                c2.at[v] = sum[i][2 * g + v];
            }
            // C[m * N + n]: 16 sectors, ideal 16 (512 bytes in 8 runs)
            *reinterpret_cast<Vector<double, 2>*>(&C[m * N + n]) = c2;
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int M = 128;

extern "C" cudaError_t gemm_tensor_f64_launch(
    const double* A,
    const double* B,
    double* C,
    cudaStream_t stream)
{
    gemm_tensor_f64<<<dim3((N + 31) / 32, (M + 63) / 64), dim3(128), 0, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
