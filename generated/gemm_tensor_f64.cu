// gemm_tensor_f64: C = A·B in double precision on tensor cores; fragments are double-buffered in registers
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 128, K = 64, N = 96
// A         input, float64 [128, 64], aligned to 16 bytes
// B         input, float64 [64, 96], aligned to 16 bytes
// C         output, float64 [128, 96], aligned to 16 bytes
// launch    grid (3, 2, 1), block (128, 1, 1), 38400 bytes of shared memory; family gemm
// pipeline  proved for at most 4 k-tiles: 3 stages, commit groups and barriers order copies and reads
// bounds    30 of 30 accesses proved
// analysis  sm_90: 15 accesses, 13 ideal, 2 costly
//           worst: Bs[stage][b_k + r][b_n], 8 wavefronts, ideal 4; 7 on average (8 lanes copy from 1 line to 2)
//
// Made by cugen 0.1.0 from gemm_tensor_f64.yaml (hash 007ef125d74857c9) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   As[stage][a_m + c][a_swizzled_k]                               4 wavefronts, ideal 4 (128 words over 32 banks)
//   a_global[c * K + BK * stage]                                   16 sectors, ideal 16 (512 bytes in 4 runs)
//   b_global[(BK * stage + r) * N]                                 16 sectors, ideal 16 (512 bytes in 2 runs)
//   As[0][thread_m + 16 * i + 8 * h][lane_n + a_swizzle]           2 wavefronts, ideal 2 (64 words over 32 banks)
//   Bs[0][lane_n][b_frag_n + 8 * j]                                2 wavefronts, ideal 2 (64 words over 32 banks)
//   As[write_stage][a_m + c][a_swizzled_k]                         4 wavefronts, ideal 4 (128 words over 32 banks)
//   a_global[c * K + prefetch_k]                                   16 sectors, ideal 16 (512 bytes in 4 runs)
//   b_global[(prefetch_k + r) * N]                                 16 sectors, ideal 16 (512 bytes in 2 runs)
//   As[read_stage][thread_m + 16 * i + 8 * h][lane_n + (k ^ a_swizzle)]
//       2 wavefronts, ideal 2 (64 words over 32 banks)
//   Bs[read_stage][lane_n + k][b_frag_n + 8 * j]                   2 wavefronts, ideal 2 (64 words over 32 banks)
//   As[next_stage][thread_m + 16 * i + 8 * h][lane_n + a_swizzle]  2 wavefronts, ideal 2 (64 words over 32 banks)
//   Bs[next_stage][lane_n][b_frag_n + 8 * j]                       2 wavefronts, ideal 2 (64 words over 32 banks)
//   C[m * N + n]                                                   16 sectors, ideal 16 (512 bytes in 8 runs)

#include <cuda_pipeline_primitives.h>

constexpr int K = 64;
constexpr int N = 96;

#ifndef CUGEN_VECTOR
#define CUGEN_VECTOR
// `count` elements, moved by one vector access.
template <typename T, int count>
struct alignas(count * sizeof(T)) Vector {
    T data[count];
};
#endif

#ifndef CUGEN_MMA_M16N8K4
#define CUGEN_MMA_M16N8K4
// D = A * B + D on the tensor cores, with A of 16 x 4, B of 4 x 8 and D of 16 x 8 elements. Lane 4 * g + t holds
// A in rows g and g + 8, column t; B in column g, row t;
// D in columns 2 * t and 2 * t + 1, rows g (`upper`) and g + 8 (`lower`).
__device__ __forceinline__ void mma_m16n8k4(
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

#ifndef CUGEN_STORE
#define CUGEN_STORE
// Vector store of `count` elements; of 4 bytes as one word, since nvcc may split the store of two 16-bit elements.
template <int count, typename T>
__device__ __forceinline__ void store(T* address, const Vector<T, count>& value)
{
    if constexpr (sizeof(value) == sizeof(unsigned)) {
        unsigned word;
        memcpy(&word, &value, sizeof(word));
        *reinterpret_cast<unsigned*>(address) = word;
    } else {
        *reinterpret_cast<Vector<T, count>*>(address) = value;
    }
}
#endif

extern "C" __global__ void __launch_bounds__(128) gemm_tensor_f64(
    const double* __restrict__ A,
    const double* __restrict__ B,
    double* __restrict__ C)
{
    constexpr int BM = 64, BN = 32, BK = 16, STAGES = 3, TM = 4, TN = 4, WM = 32, WN = 16;

    // circular buffer of 3 stages, tiles in the layout of their operands
    __shared__ __align__(16) double As[STAGES][BM][BK];
    __shared__ __align__(16) double Bs[STAGES][BK][BN + 4];

    const int m0 = blockIdx.y * BM;
    const int n0 = blockIdx.x * BN;
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    const int warp = thread / 32;
    // warp tile 32 x 16, lanes 8 x 4 as in MMA accumulators
    const int lane_m = lane / 4;
    const int lane_n = lane % 4;
    const int warp_m = WM * (warp / 2);
    const int warp_n = WN * (warp % 2);
    const int thread_m = warp_m + lane_m;
    const int thread_n = warp_n + 2 * lane_n;
    const int b_frag_n = warp_n + lane_m;
    const int a_k = 2 * (thread % 8);
    const int a_m = thread / 8;
    const int a_swizzle = 4 * (lane_m % 4);
    const int a_swizzled_k = a_k ^ (4 * (a_m % 4));
    const int b_k = thread / 16;
    const int b_n = 2 * (thread % 16);

    double acc[TM][TN] = {};

    const double* a_global = &A[(m0 + a_m) * K + a_k];
    const double* b_global = &B[b_k * N + n0 + b_n];
    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        #pragma unroll
        for (int c = 0; c < BM; c += 16) {
            __pipeline_memcpy_async(&As[stage][a_m + c][a_swizzled_k], &a_global[c * K + BK * stage], 16);
        }
        #pragma unroll
        for (int r = 0; r < BK; r += 8) {
            // Bs[stage][b_k + r][b_n]: 8 wavefronts, ideal 4; 7 on average (8 lanes copy from 1 line to 2)
            __pipeline_memcpy_async(&Bs[stage][b_k + r][b_n], &b_global[(BK * stage + r) * N], 16);
        }
        __pipeline_commit();
    }

    __pipeline_wait_prior(STAGES - 2);
    __syncthreads();
    // register fragments of A and B for one MMA, double-buffered
    double a_frag[2][TM / 2][2];
    double b_frag[2][TN / 2][1];
    #pragma unroll
    for (int i = 0; i < TM / 2; ++i) {
        #pragma unroll
        for (int h = 0; h < 2; ++h) {
            a_frag[0][i][h] = As[0][thread_m + 16 * i + 8 * h][lane_n + a_swizzle];
        }
    }
    #pragma unroll
    for (int j = 0; j < TN / 2; ++j) {
        b_frag[0][j][0] = Bs[0][lane_n][b_frag_n + 8 * j];
    }
    for (int k0 = 0, read_stage = 0; k0 < K; k0 += BK, read_stage = read_stage < STAGES - 1 ? read_stage + 1 : 0) {
        const int write_stage = read_stage > 0 ? read_stage - 1 : STAGES - 1;
        // past the last k-tile: copy it again, so that the loop has no branch
        const int prefetch_k = min(k0 + BK * (STAGES - 1), K - BK);
        #pragma unroll
        for (int c = 0; c < BM; c += 16) {
            __pipeline_memcpy_async(&As[write_stage][a_m + c][a_swizzled_k], &a_global[c * K + prefetch_k], 16);
        }
        #pragma unroll
        for (int r = 0; r < BK; r += 8) {
            // Bs[write_stage][b_k + r][b_n]: 8 wavefronts, ideal 4; 7 on average (8 lanes copy from 1 line to 2)
            __pipeline_memcpy_async(&Bs[write_stage][b_k + r][b_n], &b_global[(prefetch_k + r) * N], 16);
        }
        __pipeline_commit();
        #pragma unroll
        for (int k = 4; k < BK; k += 4) {
            #pragma unroll
            for (int i = 0; i < TM / 2; ++i) {
                #pragma unroll
                for (int h = 0; h < 2; ++h) {
                    a_frag[k / 4 % 2][i][h] = As[read_stage][thread_m + 16 * i + 8 * h][lane_n + (k ^ a_swizzle)];
                }
            }
            #pragma unroll
            for (int j = 0; j < TN / 2; ++j) {
                b_frag[k / 4 % 2][j][0] = Bs[read_stage][lane_n + k][b_frag_n + 8 * j];
            }
            #pragma unroll
            for (int i = 0; i < TM / 2; ++i) {
                #pragma unroll
                for (int j = 0; j < TN / 2; ++j) {
                    mma_m16n8k4(&acc[2 * i][2 * j], &acc[2 * i + 1][2 * j], a_frag[(k / 4 + 1) % 2][i],
                        b_frag[(k / 4 + 1) % 2][j]);
                }
            }
        }
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
        // fragments of the next k-tile; unused after the last
        const int next_stage = read_stage < STAGES - 1 ? read_stage + 1 : 0;
        #pragma unroll
        for (int i = 0; i < TM / 2; ++i) {
            #pragma unroll
            for (int h = 0; h < 2; ++h) {
                a_frag[0][i][h] = As[next_stage][thread_m + 16 * i + 8 * h][lane_n + a_swizzle];
            }
        }
        #pragma unroll
        for (int j = 0; j < TN / 2; ++j) {
            b_frag[0][j][0] = Bs[next_stage][lane_n][b_frag_n + 8 * j];
        }
        #pragma unroll
        for (int i = 0; i < TM / 2; ++i) {
            #pragma unroll
            for (int j = 0; j < TN / 2; ++j) {
                mma_m16n8k4(&acc[2 * i][2 * j], &acc[2 * i + 1][2 * j], a_frag[1][i], b_frag[1][j]);
            }
        }
    }

    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int m = m0 + thread_m + 8 * i;
        #pragma unroll
        for (int g = 0; g < TN / 2; ++g) {
            const int n = n0 + thread_n + 8 * g;
            Vector<double, 2> c2;
            #pragma unroll
            for (int v = 0; v < 2; ++v) {
                c2.data[v] = acc[i][2 * g + v];
            }
            store<2>(&C[m * N + n], c2);
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
