// matmul_f16: C = A·B on half-precision matrices; accumulated in float32 and rounded once, on the store
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 80, K = 128, N = 96
// A         input, float16 [80, 128], aligned to 16 bytes
// B         input, float16 [128, 96], aligned to 16 bytes
// C         output, float16 [80, 96], aligned to 8 bytes
// launch    grid (3, 3, 1), block (128, 1, 1), 36864 bytes of dynamic shared memory; family gemm
// pipeline  proved for at most 2 k-tiles: 4 stages, commit groups and barriers order copies and reads
// bounds    28 of 28 accesses proved
// analysis  sm_90: 13 accesses, 12 ideal, 1 unknown
//
// Made by cugen 0.1.0 from matmul_f16.yaml (hash 96baf839bf2ddf30) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   As[stage][a_m + c][a_swizzled_k]                  4 wavefronts, ideal 4 (128 words over 32 banks)
//   a_global[c * K + prologue_k]                      16 sectors, ideal 16 (512 bytes in 4 runs)
//   b_global[(prologue_k + r) * N]                    16 sectors, ideal 16 (512 bytes in 8 runs)
//   As[0][a_frag_m + 16 * i][a_swizzle]               4 wavefronts, ideal 4 (128 words over 32 banks)
//   Bs[0][b_frag_k][b_frag_n + 8 * j]                 4 wavefronts, ideal 4 (128 words over 32 banks)
//   As[read_stage][a_frag_m + 16 * i][k ^ a_swizzle]  4 wavefronts, ideal 4 (128 words over 32 banks)
//   Bs[read_stage][b_frag_k + k][b_frag_n + 8 * j]    4 wavefronts, ideal 4 (128 words over 32 banks)
//   As[next_stage][a_frag_m + 16 * i][a_swizzle]      4 wavefronts, ideal 4 (128 words over 32 banks)
//   Bs[next_stage][b_frag_k][b_frag_n + 8 * j]        4 wavefronts, ideal 4 (128 words over 32 banks)
//   c_tile[thread_m + 8 * i][thread_n + 8 * g]        2 wavefronts, ideal 2 (64 words over 32 banks)
//   c_tile[tile_m][tile_n]                            4 wavefronts, ideal 4 (128 words over 32 banks)
//   C[m * N + n]                                      8 sectors, ideal 8 (256 bytes in 4 runs)

#include <cuda_fp16.h>
#include <cuda_pipeline_primitives.h>

constexpr int M = 80;
constexpr int K = 128;
constexpr int N = 96;

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

#ifndef CUGEN_LDMATRIX_X4_TRANS
#define CUGEN_LDMATRIX_X4_TRANS
// Four matrices of 8 x 8 16-bit elements from shared memory (PTX ISA: ldmatrix). Lane l gives the address of
// row l % 8 of matrix l / 8, 16 bytes aligned to 16, and gets rows 2 * (l % 4) and 2 * (l % 4) + 1 of column l / 4 of
// each matrix.
__device__ __forceinline__ void ldmatrix_x4_trans(unsigned* words, const void* row)
{
    asm volatile(
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
        : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
        : "memory");
}
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

#ifndef CUGEN_MMA_M16N8K16_F16
#define CUGEN_MMA_M16N8K16_F16
// D = A * B + D on the tensor cores (PTX ISA: mma.m16n8k16), with A of 16 x 16 and B of 16 x 8 f16 elements.
// Lane 4 * g + t: a[0] and a[1] hold rows g and g + 8 of A, columns 2 * t and 2 * t + 1; a[2] and a[3] the same rows,
// 8 columns further on; b[0] holds rows 2 * t and 2 * t + 1 of B, column g; b[1] those 8 further on.
// D in columns 2 * t and 2 * t + 1, rows g (`upper`) and g + 8 (`lower`).
__device__ __forceinline__ void mma_m16n8k16_f16(
    float* upper, float* lower, const unsigned (&a)[4], const unsigned (&b)[2])
{
#if __CUDA_ARCH__ >= 800
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(upper[0]), "+f"(upper[1]),
          "+f"(lower[0]), "+f"(lower[1])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),
          "r"(b[0]), "r"(b[1]));
#else
    #pragma unroll
    for (int k = 0; k < 2; ++k)
        asm volatile(
            "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
            "{%4, %5}, {%6}, {%0, %1, %2, %3};"
            : "+f"(upper[0]), "+f"(upper[1]), "+f"(lower[0]), "+f"(lower[1])
            : "r"(a[2 * k]), "r"(a[2 * k + 1]), "r"(b[k]));
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

extern "C" __global__ void __launch_bounds__(128) matmul_f16(
    const __half* __restrict__ A,
    const __half* __restrict__ B,
    __half* __restrict__ C)
{
    extern __shared__ __align__(16) unsigned char shared_memory[];

    constexpr int BM = 32, BN = 32, BK = 64, STAGES = 4, TM = 2, TN = 4, WM = 16, WN = 16;

    // circular buffer of 4 stages, tiles in the layout of their operands
    __half (*As)[BM][BK] = reinterpret_cast<__half (*)[BM][BK]>(shared_memory);
    __half (*Bs)[BK][BN + 8] = reinterpret_cast<__half (*)[BK][BN + 8]>(As + STAGES);
    float (*c_tile)[BN + 8] = reinterpret_cast<float (*)[BN + 8]>(shared_memory);

    // tiles at the edge are shifted inside and overlap others: they need no bounds checks
    const int m0 = min(blockIdx.y * BM, M - BM);
    const int n0 = blockIdx.x * BN;
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
    const int a_k = 8 * (thread % 8);
    const int a_m = thread / 8;
    const int a_frag_k = 8 * (lane / 16);
    const int a_frag_m = warp_m + lane % 16;
    const int a_swizzle = a_frag_k ^ (8 * (lane % 8));
    const int a_swizzled_k = a_k ^ (8 * (a_m % 8));
    const int b_k = thread / 4;
    const int b_n = 8 * (thread % 4);
    const int b_frag_k = lane % 16;
    const int b_frag_n = warp_n + 8 * (lane / 16);

    float acc[TM][TN] = {};

    const __half* a_global = &A[(m0 + a_m) * K + a_k];
    const __half* b_global = &B[b_k * N + n0 + b_n];
    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        const int prologue_k = min(BK * stage, K - BK);
        #pragma unroll
        for (int c = 0; c < BM; c += 16) {
            __pipeline_memcpy_async(&As[stage][a_m + c][a_swizzled_k], &a_global[c * K + prologue_k], 16);
        }
        #pragma unroll
        for (int r = 0; r < BK; r += 32) {
            // Bs[stage][b_k + r][b_n]: unknown: it depends on where its sources are in 128-byte lines
            __pipeline_memcpy_async(&Bs[stage][b_k + r][b_n], &b_global[(prologue_k + r) * N], 16);
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
        ldmatrix_x4_trans(&b_frag[0][j][0], &Bs[0][b_frag_k][b_frag_n + 8 * j]);
    }
    for (int k0 = 0; k0 < K; k0 += BK) {
        const int read_stage = k0 / BK;
        // no k-tile is left to copy: an empty group, since the wait counts groups
        __pipeline_commit();
        #pragma unroll
        for (int k = 16; k < BK; k += 16) {
            #pragma unroll
            for (int i = 0; i < TM / 2; ++i) {
                ldmatrix_x4(&a_frag[k / 16 % 2][i][0], &As[read_stage][a_frag_m + 16 * i][k ^ a_swizzle]);
            }
            #pragma unroll
            for (int j = 0; j < TN / 2; j += 2) {
                ldmatrix_x4_trans(&b_frag[k / 16 % 2][j][0], &Bs[read_stage][b_frag_k + k][b_frag_n + 8 * j]);
            }
            #pragma unroll
            for (int i = 0; i < TM / 2; ++i) {
                #pragma unroll
                for (int j = 0; j < TN / 2; ++j) {
                    mma_m16n8k16_f16(&acc[2 * i][2 * j], &acc[2 * i + 1][2 * j], a_frag[(k / 16 + 1) % 2][i],
                        b_frag[(k / 16 + 1) % 2][j]);
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
            ldmatrix_x4_trans(&b_frag[0][j][0], &Bs[next_stage][b_frag_k][b_frag_n + 8 * j]);
        }
        #pragma unroll
        for (int i = 0; i < TM / 2; ++i) {
            #pragma unroll
            for (int j = 0; j < TN / 2; ++j) {
                mma_m16n8k16_f16(&acc[2 * i][2 * j], &acc[2 * i + 1][2 * j], a_frag[1][i], b_frag[1][j]);
            }
        }
    }
    // drain the outstanding copies
    __pipeline_wait_prior(0);

    // the block's sums, in the memory of the pipeline after its last read
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        #pragma unroll
        for (int g = 0; g < TN / 2; ++g) {
            Vector<float, 2> acc_vector;
            #pragma unroll
            for (int w = 0; w < 2; ++w) {
                acc_vector.data[w] = acc[i][2 * g + w];
            }
            store<2>(&c_tile[thread_m + 8 * i][thread_n + 8 * g], acc_vector);
        }
    }
    __syncthreads();
    #pragma unroll
    for (int e = 0; e < BM * (BN / 4); e += 128) {
        const int tile_m = (thread + e) / (BN / 4);
        const int tile_n = 4 * ((thread + e) % (BN / 4));
        const int m = m0 + tile_m;
        const int n = n0 + tile_n;
        const auto sums = load<4>(&c_tile[tile_m][tile_n]);
        Vector<__half, 4> c4;
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            c4.data[v] = __float2half_rn(sums.data[v]);
        }
        store<4>(&C[m * N + n], c4);
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t matmul_f16_launch(
    const __half* A,
    const __half* B,
    __half* C,
    cudaStream_t stream)
{
    matmul_f16<<<dim3((N + 31) / 32, (M + 31) / 32), dim3(128), 36864, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
