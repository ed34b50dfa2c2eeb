// gemm_tensor_int8: C = A·B of unsigned by signed 8-bit integers on tensor cores; B is copied to K-major tiles
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 48, K = 128, N = 64
// A         input, uint8 [48, 128], aligned to 16 bytes
// B         input, int8 [128, 64]
// C         output, int32 [48, 64], aligned to 8 bytes
// launch    grid (1, 2, 1), block (128, 1, 1), 18432 bytes of shared memory; family gemm
// pipeline  proved for at most 2 k-tiles: 3 stages, commit groups and barriers order copies and reads
// bounds    26 of 26 accesses proved
// analysis  sm_90: 11 accesses, 9 ideal, 1 costly, 1 unknown
//           worst: Bs[stage][b_n + c][(b_k + r) ^ (16 * ((b_n + c) / 2 % 4))], 4 wavefronts, ideal 1
//           (lanes 0 and 8: words 0 and 128, bank 0)
//
// Made by cugen 0.1.0 from gemm_tensor_int8.yaml (hash 3ff9b1b3fff17cf3) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   a_global[BK * stage]                              16 sectors, ideal 16 (512 bytes in 8 runs)
//   b_global[(BK * stage + r) * N + c]                1 sector, ideal 1 (32 contiguous bytes)
//   As[0][a_frag_m + 16 * i][a_swizzle]               4 wavefronts, ideal 4 (128 words over 32 banks)
//   Bs[0][b_frag_n + 8 * j][b_swizzle]                4 wavefronts, ideal 4 (128 words over 32 banks)
//   As[read_stage][a_frag_m + 16 * i][k ^ a_swizzle]  4 wavefronts, ideal 4 (128 words over 32 banks)
//   Bs[read_stage][b_frag_n + 8 * j][k ^ b_swizzle]   4 wavefronts, ideal 4 (128 words over 32 banks)
//   As[next_stage][a_frag_m + 16 * i][a_swizzle]      4 wavefronts, ideal 4 (128 words over 32 banks)
//   Bs[next_stage][b_frag_n + 8 * j][b_swizzle]       4 wavefronts, ideal 4 (128 words over 32 banks)
//   C[m * N + n]                                      8 sectors, ideal 8 (256 bytes in 8 runs)

#include <cuda_pipeline_primitives.h>

constexpr int M = 48;
constexpr int K = 128;
constexpr int N = 64;

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

#ifndef CUGEN_MMA_M16N8K32_U8_S8
#define CUGEN_MMA_M16N8K32_U8_S8
// D = A * B + D on the tensor cores (PTX ISA: mma.m16n8k32), with A of 16 x 32 u8
// and B of 32 x 8 s8 elements.
// Lane 4 * g + t: a[0] and a[1] hold rows g and g + 8 of A, columns 4 * t to 4 * t + 3; a[2] and a[3] the same rows,
// 16 columns further on; b[0] holds rows 4 * t to 4 * t + 3 of B, column g; b[1] those 16 further on.
// D in columns 2 * t and 2 * t + 1, rows g (`upper`) and g + 8 (`lower`).
__device__ __forceinline__ void mma_m16n8k32_u8_s8(
    int* upper, int* lower, const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, "
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

extern "C" __global__ void __launch_bounds__(128) gemm_tensor_int8(
    const unsigned char* __restrict__ A,
    const signed char* __restrict__ B,
    int* __restrict__ C)
{
    constexpr int BM = 32, BN = 64, BK = 64, STAGES = 3, TM = 4, TN = 4, WN = 16;

    // circular buffer of 3 stages, tiles in the layout of their operands
    __shared__ __align__(16) unsigned char As[STAGES][BM][BK];
    __shared__ __align__(16) signed char Bs[STAGES][BN][BK];

    // tiles at the edge are shifted inside and overlap others: they need no bounds checks
    const int m0 = min(blockIdx.y * BM, M - BM);
    const int n0 = blockIdx.x * BN;
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    const int warp = thread / 32;
    // warp tile 32 x 16, lanes 8 x 4 as in MMA accumulators
    const int lane_m = lane / 4;
    const int lane_n = lane % 4;
    const int warp_n = WN * warp;
    const int thread_m = lane_m;
    const int thread_n = warp_n + 2 * lane_n;
    const int a_k = 16 * (thread % 4);
    const int a_m = thread / 4;
    const int a_frag_k = 16 * (lane / 16);
    const int a_frag_m = lane % 16;
    const int a_swizzle = a_frag_k ^ (16 * (lane % 8 / 2));
    const int a_swizzled_k = a_k ^ (16 * (a_m / 2 % 4));
    const int b_k = thread / 32;
    const int b_n = thread % 32;
    const int b_frag_k = 16 * (lane / 8 % 2);
    const int b_frag_n = warp_n + 8 * (lane / 16) + lane % 8;
    const int b_swizzle = b_frag_k ^ (16 * (lane % 8 / 2));

    int acc[TM][TN] = {};

    const unsigned char* a_global = &A[(m0 + a_m) * K + a_k];
    const signed char* b_global = &B[b_k * N + n0 + b_n];
    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        // As[stage][a_m][a_swizzled_k]: unknown: it depends on where its sources are in 128-byte lines
        __pipeline_memcpy_async(&As[stage][a_m][a_swizzled_k], &a_global[BK * stage], 16);
        #pragma unroll
        for (int r = 0; r < BK; r += 4) {
            #pragma unroll
            for (int c = 0; c < BN; c += 32) {
                // Bs[stage][b_n + c][(b_k + r) ^ (16 * ((b_n + c) / 2 % 4))]: 4 wavefronts, ideal 1
                // (lanes 0 and 8: words 0 and 128, bank 0)
                Bs[stage][b_n + c][(b_k + r) ^ (16 * ((b_n + c) / 2 % 4))] = b_global[(BK * stage + r) * N + c];
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
    for (int k0 = 0; k0 < K; k0 += BK) {
        const int read_stage = k0 / BK;
        // no k-tile is left to copy: an empty group, since the wait counts groups
        __pipeline_commit();
        #pragma unroll
        for (int k = 32; k < BK; k += 32) {
            #pragma unroll
            for (int i = 0; i < TM / 2; ++i) {
                ldmatrix_x4(&a_frag[k / 32][i][0], &As[read_stage][a_frag_m + 16 * i][k ^ a_swizzle]);
            }
            #pragma unroll
            for (int j = 0; j < TN / 2; j += 2) {
                ldmatrix_x4(&b_frag[k / 32][j][0], &Bs[read_stage][b_frag_n + 8 * j][k ^ b_swizzle]);
            }
            #pragma unroll
            for (int i = 0; i < TM / 2; ++i) {
                #pragma unroll
                for (int j = 0; j < TN / 2; ++j) {
                    mma_m16n8k32_u8_s8(&acc[2 * i][2 * j], &acc[2 * i + 1][2 * j], a_frag[(k / 32 + 1) % 2][i],
                        b_frag[(k / 32 + 1) % 2][j]);
                }
            }
        }
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
        // fragments of the next k-tile; unused after the last
        const int next_stage = k0 + BK < K ? k0 / BK + 1 : read_stage;
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
                mma_m16n8k32_u8_s8(&acc[2 * i][2 * j], &acc[2 * i + 1][2 * j], a_frag[1][i], b_frag[1][j]);
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
            store<2>(&C[m * N + n], c2);
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t gemm_tensor_int8_launch(
    const unsigned char* A,
    const signed char* B,
    int* C,
    cudaStream_t stream)
{
    gemm_tensor_int8<<<dim3((N + 63) / 64, (M + 31) / 32), dim3(128), 0, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
