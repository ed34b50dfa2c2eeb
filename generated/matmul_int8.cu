// matmul_int8: C = A·B on 8-bit integers with 32-bit accumulators, as in quantised networks
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 60, K = 200, N = 90
// A         input, int8 [60, 200], aligned to 8 bytes
// B         input, int8 [200, 90]
// C         output, int32 [60, 90], aligned to 8 bytes
// launch    grid (3, 2, 1), block (128, 1, 1), 16384 bytes of shared memory; family gemm
// pipeline  proved for at most 2 k-tiles: 2 stages, commit groups and barriers order copies and reads
// bounds    33 of 33 accesses proved
// analysis  sm_90: 16 accesses, 7 ideal, 8 costly, 1 assumed
//           worst: Bs[stage][b_n][(b_k + r) ^ (16 * (b_n % 8))], 4 wavefronts, ideal 1
//           (lanes 0 and 8: words 16 and 272, bank 16)
//
// Made by cugen 0.1.0 from matmul_int8.yaml (hash e6e6a92724a564f5) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   As[0][a_frag_m + 16 * i][a_swizzle]               4 wavefronts, ideal 4 (128 words over 32 banks)
//   Bs[0][b_frag_n + 8 * j][b_swizzle]                4 wavefronts, ideal 4 (128 words over 32 banks)
//   As[write_stage][a_m + c][a_swizzled_k]            2 wavefronts, ideal 2 (64 words over 32 banks)
//   As[read_stage][a_frag_m + 16 * i][k ^ a_swizzle]  4 wavefronts, ideal 4 (128 words over 32 banks)
//   Bs[read_stage][b_frag_n + 8 * j][k ^ b_swizzle]   4 wavefronts, ideal 4 (128 words over 32 banks)
//   As[next_stage][a_frag_m + 16 * i][a_swizzle]      4 wavefronts, ideal 4 (128 words over 32 banks)
//   Bs[next_stage][b_frag_n + 8 * j][b_swizzle]       4 wavefronts, ideal 4 (128 words over 32 banks)

#include <cuda_pipeline_primitives.h>

constexpr int M = 60;
constexpr int K = 200;
constexpr int N = 90;

#ifndef CUGEN_VECTOR
#define CUGEN_VECTOR
// `count` elements, moved by one vector access.
template <typename T, int count>
struct alignas(count * sizeof(T)) Vector {
    T data[count];
};
#endif

#ifndef CUGEN_LDMATRIX_X4
#define CUGEN_LDMATRIX_X4
// Four matrices of 8 x 8 16-bit elements from shared memory (PTX ISA: ldmatrix). Lane l gives the address of
// row l % 8 of matrix l / 8, 16 bytes aligned to 16, and gets word l % 4 of row l / 4 of each matrix.
__device__ __forceinline__ void ldmatrix_x4(unsigned* words, const void* row)
{
    asm volatile(
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
        : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
        : "memory");
}
#endif

#ifndef CUGEN_MMA_M16N8K32_S8
#define CUGEN_MMA_M16N8K32_S8
// D = A * B + D on the tensor cores (PTX ISA: mma.m16n8k32), with A of 16 x 32 s8
// and B of 32 x 8 s8 elements.
// Lane 4 * g + t: a[0] and a[1] hold rows g and g + 8 of A, columns 4 * t to 4 * t + 3; a[2] and a[3] the same rows,
// 16 columns further on; b[0] holds rows 4 * t to 4 * t + 3 of B, column g; b[1] those 16 further on.
// D in columns 2 * t and 2 * t + 1, rows g (`upper`) and g + 8 (`lower`).
__device__ __forceinline__ void mma_m16n8k32_s8(
    int* upper, int* lower, const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(upper[0]), "+r"(upper[1]),
          "+r"(lower[0]), "+r"(lower[1])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),
          "r"(b[0]), "r"(b[1]));
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

extern "C" __global__ void __launch_bounds__(128) matmul_int8(
    const signed char* __restrict__ A,
    const signed char* __restrict__ B,
    int* __restrict__ C)
{
    constexpr int BM = 32, BN = 32, BK = 128, STAGES = 2, TM = 2, TN = 4, WM = 16, WN = 16;

    // circular buffer of 2 stages, tiles in the layout of their operands
    __shared__ __align__(16) signed char As[STAGES][BM][BK];
    __shared__ __align__(16) signed char Bs[STAGES][BN][BK];

    // tiles at the edge are shifted inside and overlap others: they need no bounds checks
    const int m0 = min(blockIdx.y * BM, M - BM);
    const int n0 = min(blockIdx.x * BN, N - BN);
    // the first k-tile begins at k = -k_residue, so that all others are full
    constexpr int k_residue = 56;
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    const int warp = thread / 32;
    // warp tile 16 x 16, lanes 8 x 4 as in MMA accumulators
    const int lane_m = lane / 4;
    const int lane_n = lane % 4;
    const int warp_m = WM * (warp / 2);
    const int warp_n = WN * (warp % 2);
    const int thread_m = warp_m + lane_m;
    const int thread_n = warp_n + 2 * lane_n;
    const int a_k = 8 * (thread % 16);
    const int a_m = thread / 16;
    const int a_frag_k = 16 * (lane / 16);
    const int a_frag_m = warp_m + lane % 16;
    const int a_swizzle = a_frag_k ^ (16 * (lane % 8));
    const int a_swizzled_k = a_k ^ (16 * a_m);
    const int b_k = thread / 32;
    const int b_n = thread % 32;
    const int b_frag_k = 16 * (lane / 8 % 2);
    const int b_frag_n = warp_n + 8 * (lane / 16) + lane % 8;
    const int b_swizzle = b_frag_k ^ (16 * (lane % 8));

    int acc[TM][TN] = {};

    const signed char* a_global = &A[(m0 + a_m) * K + a_k - k_residue];
    const signed char* b_global = &B[(b_k - k_residue) * N + n0 + b_n];
    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        #pragma unroll
        for (int c = 0; c < BM; c += 8) {
            // a_global[c * K + BK * stage]: 6 sectors, ideal 5 (144 bytes in 2 runs)
            // As[stage][a_m + c][a_swizzled_k]: assumed: 2 wavefronts, ideal 2 (28 words over 16 banks)
            __pipeline_memcpy_async(&As[stage][a_m + c][a_swizzled_k], &a_global[c * K + BK * stage], 8,
                a_k + BK * stage - k_residue >= 0 ? 0 : 8);
        }
        #pragma unroll
        for (int r = 0; r < BK; r += 4) {
            if (b_k + BK * stage + r - k_residue >= 0) {
                // b_global[(BK * stage + r) * N]: 2 sectors, ideal 1; 1.94 on average (misaligned by 8 bytes)
                // Bs[stage][b_n][(b_k + r) ^ (16 * (b_n % 8))]: 4 wavefronts, ideal 1
                // (lanes 0 and 8: words 16 and 272, bank 16)
                Bs[stage][b_n][(b_k + r) ^ (16 * (b_n % 8))] = b_global[(BK * stage + r) * N];
            } else {
                // Bs[stage][b_n][(b_k + r) ^ (16 * (b_n % 8))]: 4 wavefronts, ideal 1
                // (lanes 0 and 8: words 0 and 256, bank 0)
                Bs[stage][b_n][(b_k + r) ^ (16 * (b_n % 8))] = 0;
            }
        }
        __pipeline_commit();
    }

    __pipeline_wait_prior(STAGES - 2);
    __syncthreads();
    // register fragments of A and B for one MMA, double-buffered
    unsigned int a_frag[2][TM / 2][4];
    unsigned int b_frag[2][TN / 2][2];
    #pragma unroll
    for (int i = 0; i < TM / 2; ++i) {
        ldmatrix_x4(&a_frag[0][i][0], &As[0][a_frag_m + 16 * i][a_swizzle]);
    }
    #pragma unroll
    for (int j = 0; j < TN / 2; j += 2) {
        ldmatrix_x4(&b_frag[0][j][0], &Bs[0][b_frag_n + 8 * j][b_swizzle]);
    }
    for (int k0 = 0; k0 < K + k_residue; k0 += BK) {
        const int read_stage = k0 / BK % STAGES;
        const int write_stage = (k0 / BK + STAGES - 1) % STAGES;
        // past the last k-tile: copy it again, so that the loop has no branch
        const int prefetch_k = min(k0 + BK * (STAGES - 1), K + k_residue - BK);
        // through registers: stored after the k steps, which hide the latency of these loads
        signed char b_ahead[32];
        #pragma unroll
        for (int r = 0; r < BK; r += 4) {
            // b_global[(prefetch_k + r) * N]: 2 sectors, ideal 1; 1.94 on average (misaligned by 16 bytes)
            b_ahead[r / 4] = b_global[(prefetch_k + r) * N];
        }
        #pragma unroll
        for (int c = 0; c < BM; c += 8) {
            // a_global[c * K + prefetch_k]: 10 sectors, ideal 8; 9.5 on average (256 bytes in 2 runs)
            __pipeline_memcpy_async(&As[write_stage][a_m + c][a_swizzled_k], &a_global[c * K + prefetch_k], 8);
        }
        #pragma unroll
        for (int k = 32; k < BK; k += 32) {
            #pragma unroll
            for (int i = 0; i < TM / 2; ++i) {
                ldmatrix_x4(&a_frag[k / 32 % 2][i][0], &As[read_stage][a_frag_m + 16 * i][k ^ a_swizzle]);
            }
            #pragma unroll
            for (int j = 0; j < TN / 2; j += 2) {
                ldmatrix_x4(&b_frag[k / 32 % 2][j][0], &Bs[read_stage][b_frag_n + 8 * j][k ^ b_swizzle]);
            }
            #pragma unroll
            for (int i = 0; i < TM / 2; ++i) {
                #pragma unroll
                for (int j = 0; j < TN / 2; ++j) {
                    mma_m16n8k32_s8(&acc[2 * i][2 * j], &acc[2 * i + 1][2 * j], a_frag[(k / 32 + 1) % 2][i],
                        b_frag[(k / 32 + 1) % 2][j]);
                }
            }
        }
        #pragma unroll
        for (int r = 0; r < BK; r += 4) {
            // Bs[write_stage][b_n][(b_k + r) ^ (16 * (b_n % 8))]: 4 wavefronts, ideal 1
            // (lanes 0 and 8: words 1024 and 1280, bank 0)
            Bs[write_stage][b_n][(b_k + r) ^ (16 * (b_n % 8))] = b_ahead[r / 4];
        }
        __pipeline_commit();
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
        // fragments of the next k-tile; unused after the last
        const int next_stage = (k0 / BK + 1) % STAGES;
        #pragma unroll
        for (int i = 0; i < TM / 2; ++i) {
            ldmatrix_x4(&a_frag[0][i][0], &As[next_stage][a_frag_m + 16 * i][a_swizzle]);
        }
        #pragma unroll
        for (int j = 0; j < TN / 2; j += 2) {
            ldmatrix_x4(&b_frag[0][j][0], &Bs[next_stage][b_frag_n + 8 * j][b_swizzle]);
        }
        #pragma unroll
        for (int i = 0; i < TM / 2; ++i) {
            #pragma unroll
            for (int j = 0; j < TN / 2; ++j) {
                mma_m16n8k32_s8(&acc[2 * i][2 * j], &acc[2 * i + 1][2 * j], a_frag[1][i], b_frag[1][j]);
            }
        }
    }

    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int m = m0 + thread_m + 8 * i;
        #pragma unroll
        for (int g = 0; g < TN / 2; ++g) {
            const int n = n0 + thread_n + 8 * g;
            Vector<int, 2> c2;
            #pragma unroll
            for (int v = 0; v < 2; ++v) {
                c2.data[v] = acc[i][2 * g + v];
            }
            // C[m * N + n]: 14 sectors, ideal 8 (256 bytes in 8 runs)
            store<2>(&C[m * N + n], c2);
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t matmul_int8_launch(
    const signed char* A,
    const signed char* B,
    int* C,
    cudaStream_t stream)
{
    matmul_int8<<<dim3((N + 31) / 32, (M + 31) / 32), dim3(128), 0, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
