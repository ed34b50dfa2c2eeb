// tensor_ladder_4_pipeline: step 4: a pipeline of four stages, which cp.async fills, and warp tiles of 64 × 64
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 128, N = 256, K = 96
// A         input, bfloat16 [128, 96], aligned to 16 bytes
// B         input, bfloat16 [96, 256], aligned to 16 bytes
// C         output, bfloat16 [128, 256], aligned to 8 bytes
// launch    grid (1, 1, 1), block (256, 1, 1), 135168 bytes of dynamic shared memory; family gemm
// pipeline  proved for at most 3 k-tiles: 4 stages, commit groups and barriers order copies and reads
// bounds    28 of 28 accesses proved
// analysis  sm_90: 13 accesses, 12 ideal, 1 unknown
//
// Made by cugen 0.1.0 from product_ladder_bf16.yaml (hash 8f5f364600fdb2ec) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   a_global[c * K + BK * stage]                                16 sectors, ideal 16 (512 bytes in 8 runs)
//   Bs[stage][b_k + r][b_n ^ (8 * ((b_k + r) % 8))]             4 wavefronts, ideal 4 (128 words over 32 banks)
//   b_global[(BK * stage + r) * N]                              16 sectors, ideal 16 (512 contiguous bytes)
//   As[0][a_frag_m + 16 * i][a_swizzle]                         4 wavefronts, ideal 4 (128 words over 32 banks)
//   Bs[0][b_frag_k][(b_frag_n + 8 * j) ^ (8 * (b_frag_k % 8))]  4 wavefronts, ideal 4 (128 words over 32 banks)
//   As[read_stage][a_frag_m + 16 * i][k ^ a_swizzle]            4 wavefronts, ideal 4 (128 words over 32 banks)
//   Bs[read_stage][b_frag_k + k][(b_frag_n + 8 * j) ^ (8 * ((b_frag_k + k) % 8))]
//       4 wavefronts, ideal 4 (128 words over 32 banks)
//   As[next_stage][a_frag_m + 16 * i][a_swizzle]                4 wavefronts, ideal 4 (128 words over 32 banks)
//   Bs[next_stage][b_frag_k][(b_frag_n + 8 * j) ^ (8 * (b_frag_k % 8))]
//       4 wavefronts, ideal 4 (128 words over 32 banks)
//   c_tile[thread_m + 8 * i][thread_n + 8 * g]                  2 wavefronts, ideal 2 (64 words over 32 banks)
//   c_tile[tile_m][tile_n]                                      4 wavefronts, ideal 4 (128 words over 32 banks)
//   C[m * N + n]                                                8 sectors, ideal 8 (256 contiguous bytes)

#include <cuda_bf16.h>
#include <cuda_pipeline_primitives.h>

constexpr int N = 256;
constexpr int K = 96;

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

#ifndef CUGEN_MMA_M16N8K16_BF16
#define CUGEN_MMA_M16N8K16_BF16
// D = A * B + D on the tensor cores (PTX ISA: mma.m16n8k16), with A of 16 x 16 and B of 16 x 8 bf16 elements.
// Lane 4 * g + t: a[0] and a[1] hold rows g and g + 8 of A, columns 2 * t and 2 * t + 1; a[2] and a[3] the same rows,
// 8 columns further on; b[0] holds rows 2 * t and 2 * t + 1 of B, column g; b[1] those 8 further on.
// D in columns 2 * t and 2 * t + 1, rows g (`upper`) and g + 8 (`lower`).
__device__ __forceinline__ void mma_m16n8k16_bf16(
    float* upper, float* lower, const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(upper[0]), "+f"(upper[1]),
          "+f"(lower[0]), "+f"(lower[1])
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

extern "C" __global__ void __launch_bounds__(256) tensor_ladder_4_pipeline(
    const __nv_bfloat16* __restrict__ A,
    const __nv_bfloat16* __restrict__ B,
    __nv_bfloat16* __restrict__ C)
{
    extern __shared__ __align__(16) unsigned char shared_memory[];

    constexpr int BM = 128, BN = 256, BK = 32, STAGES = 4, TM = 8, TN = 16, WM = 64, WN = 64;

    // circular buffer of 4 stages, tiles in the layout of their operands
    __nv_bfloat16 (*As)[BM][BK] = reinterpret_cast<__nv_bfloat16 (*)[BM][BK]>(shared_memory);
    __nv_bfloat16 (*Bs)[BK][BN] = reinterpret_cast<__nv_bfloat16 (*)[BK][BN]>(As + STAGES);
    float (*c_tile)[BN + 8] = reinterpret_cast<float (*)[BN + 8]>(shared_memory);

    const int m0 = blockIdx.y * BM;
    const int n0 = blockIdx.x * BN;
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    const int warp = thread / 32;
    // warp tile 64 x 64, lanes 8 x 4 as in MMA accumulators
    const int lane_m = lane / 4;
    const int lane_n = lane % 4;
    const int warp_m = WM * (warp / 4);
    const int warp_n = WN * (warp % 4);
    const int thread_m = warp_m + lane_m;
    const int thread_n = warp_n + 2 * lane_n;
    const int a_k = 8 * (thread % 4);
    const int a_m = thread / 4;
    const int a_frag_k = 8 * (lane / 16);
    const int a_frag_m = warp_m + lane % 16;
    const int a_swizzle = a_frag_k ^ (8 * (lane % 8 / 2));
    const int a_swizzled_k = a_k ^ (8 * (a_m / 2 % 4));
    const int b_k = thread / 32;
    const int b_n = 8 * (thread % 32);
    const int b_frag_k = lane % 16;
    const int b_frag_n = warp_n + 8 * (lane / 16);

    float acc[TM][TN] = {};

    const __nv_bfloat16* a_global = &A[(m0 + a_m) * K + a_k];
    const __nv_bfloat16* b_global = &B[b_k * N + n0 + b_n];
    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        #pragma unroll
        for (int c = 0; c < BM; c += 64) {
            // As[stage][a_m + c][a_swizzled_k]: unknown: it depends on where its sources are in 128-byte lines
            __pipeline_memcpy_async(&As[stage][a_m + c][a_swizzled_k], &a_global[c * K + BK * stage], 16);
        }
        #pragma unroll
        for (int r = 0; r < BK; r += 8) {
            __pipeline_memcpy_async(&Bs[stage][b_k + r][b_n ^ (8 * ((b_k + r) % 8))], &b_global[(BK * stage + r) * N],
                16);
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
        ldmatrix_x4_trans(&b_frag[0][j][0], &Bs[0][b_frag_k][(b_frag_n + 8 * j) ^ (8 * (b_frag_k % 8))]);
    }
    for (int k0 = 0; k0 < K; k0 += BK) {
        const int read_stage = k0 / BK;
        #pragma unroll
        for (int k = 16; k < BK; k += 16) {
            #pragma unroll
            for (int i = 0; i < TM / 2; ++i) {
                ldmatrix_x4(&a_frag[k / 16][i][0], &As[read_stage][a_frag_m + 16 * i][k ^ a_swizzle]);
            }
            #pragma unroll
            for (int j = 0; j < TN / 2; j += 2) {
                ldmatrix_x4_trans(&b_frag[k / 16][j][0],
                    &Bs[read_stage][b_frag_k + k][(b_frag_n + 8 * j) ^ (8 * ((b_frag_k + k) % 8))]);
            }
            #pragma unroll
            for (int i = 0; i < TM / 2; ++i) {
                #pragma unroll
                for (int j = 0; j < TN / 2; ++j) {
                    mma_m16n8k16_bf16(&acc[2 * i][2 * j], &acc[2 * i + 1][2 * j], a_frag[(k / 16 + 1) % 2][i],
                        b_frag[(k / 16 + 1) % 2][j]);
                }
            }
        }
        // no k-tile is left to copy: an empty group, since the wait counts groups
        __pipeline_commit();
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
            ldmatrix_x4_trans(&b_frag[0][j][0], &Bs[next_stage][b_frag_k][(b_frag_n + 8 * j) ^ (8 * (b_frag_k % 8))]);
        }
        #pragma unroll
        for (int i = 0; i < TM / 2; ++i) {
            #pragma unroll
            for (int j = 0; j < TN / 2; ++j) {
                mma_m16n8k16_bf16(&acc[2 * i][2 * j], &acc[2 * i + 1][2 * j], a_frag[1][i], b_frag[1][j]);
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
    #pragma unroll 4
    for (int e = 0; e < BM * (BN / 4); e += 256) {
        const int tile_m = (thread + e) / (BN / 4);
        const int tile_n = 4 * ((thread + e) % (BN / 4));
        const int m = m0 + tile_m;
        const int n = n0 + tile_n;
        const auto sums = load<4>(&c_tile[tile_m][tile_n]);
        Vector<__nv_bfloat16, 4> c4;
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            c4.data[v] = __float2bfloat16_rn(sums.data[v]);
        }
        store<4>(&C[m * N + n], c4);
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int M = 128;

extern "C" cudaError_t tensor_ladder_4_pipeline_launch(
    const __nv_bfloat16* A,
    const __nv_bfloat16* B,
    __nv_bfloat16* C,
    cudaStream_t stream)
{
    cudaFuncSetAttribute(tensor_ladder_4_pipeline, cudaFuncAttributeMaxDynamicSharedMemorySize, 135168);
    tensor_ladder_4_pipeline<<<dim3((N + 255) / 256, (M + 127) / 128), dim3(256), 135168, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
