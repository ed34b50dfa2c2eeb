// gemm_tensor_bf16: C = A·Bᵀ in bfloat16 on tensor cores, as of a linear layer on a dynamic number of rows
//
// computes  C[m, n] = sum(A[m, k] * B[n, k], k)
// params    M (dynamic, 1 to 65536), K = 80, N = 96
// A         input, bfloat16 [M, 80], aligned to 16 bytes
// B         input, bfloat16 [96, 80], aligned to 16 bytes
// C         output, bfloat16 [M, 96], aligned to 8 bytes
// launch    grid (3, (M + 31) // 32, 1), block (64, 1, 1), 12288 bytes of dynamic shared memory; family gemm
// pipeline  proved for at most 3 k-tiles: 3 stages, commit groups and barriers order copies and reads
// bounds    36 of 36 accesses proved
// analysis  sm_90: 21 accesses, 15 ideal, 6 unknown
//
// Made by cugen 0.1.0 from gemm_tensor_bf16.yaml (hash 2e493dfef3d29d7a) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   a_global[c * K + BK * stage]                      8 sectors, ideal 8 (at any M)
//   b_global[c * K + BK * stage]                      8 sectors, ideal 8 (at any M)
//   As[0][a_frag_m + 16 * i][a_swizzle]               4 wavefronts, ideal 4 (at any M)
//   Bs[0][b_frag_n + 8 * j][b_swizzle]                4 wavefronts, ideal 4 (at any M)
//   As[read_stage][a_frag_m + 16 * i][k ^ a_swizzle]  4 wavefronts, ideal 4 (at any M)
//   Bs[read_stage][b_frag_n + 8 * j][k ^ b_swizzle]   4 wavefronts, ideal 4 (at any M)
//   a_global[(k - 16) * K + prefetch_k]               16 sectors, ideal 16 (at any M)
//   b_global[(k - 16) * K + prefetch_k]               16 sectors, ideal 16 (at any M)
//   a_global[(BK - 16) * K + prefetch_k]              16 sectors, ideal 16 (at any M)
//   b_global[(BK - 16) * K + prefetch_k]              16 sectors, ideal 16 (at any M)
//   As[next_stage][a_frag_m + 16 * i][a_swizzle]      4 wavefronts, ideal 4 (at any M)
//   Bs[next_stage][b_frag_n + 8 * j][b_swizzle]       4 wavefronts, ideal 4 (at any M)
//   c_tile[thread_m + 8 * i][thread_n + 8 * g]        2 wavefronts, ideal 2 (at any M)
//   c_tile[tile_m][tile_n]                            4 wavefronts, ideal 4 (at any M)
//   C[m * N + n]                                      8 sectors, ideal 8 (at any M)

#include <cuda_bf16.h>
#include <cuda_pipeline_primitives.h>

constexpr int K = 80;
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

extern "C" __global__ void __launch_bounds__(64) gemm_tensor_bf16(
    const __nv_bfloat16* __restrict__ A,
    const __nv_bfloat16* __restrict__ B,
    __nv_bfloat16* __restrict__ C,
    int M)
{
    extern __shared__ __align__(16) unsigned char shared_memory[];

    constexpr int BM = 32, BN = 32, BK = 32, STAGES = 3, TM = 4, TN = 4, WN = 16;

    // circular buffer of 3 stages, tiles in the layout of their operands
    __nv_bfloat16 (*As)[BM][BK] = reinterpret_cast<__nv_bfloat16 (*)[BM][BK]>(shared_memory);
    __nv_bfloat16 (*Bs)[BN][BK] = reinterpret_cast<__nv_bfloat16 (*)[BN][BK]>(As + STAGES);
    float (*c_tile)[BN + 8] = reinterpret_cast<float (*)[BN + 8]>(shared_memory);

    const int m0 = blockIdx.y * BM;
    const int n0 = blockIdx.x * BN;
    // the first k-tile begins at k = -k_residue, so that all others are full
    constexpr int k_residue = 16;
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    const int warp = thread / 32;
    // warp tile 32 x 16, lanes 8 x 4 as in MMA accumulators
    const int lane_m = lane / 4;
    const int lane_n = lane % 4;
    const int warp_n = WN * warp;
    const int thread_m = lane_m;
    const int thread_n = warp_n + 2 * lane_n;
    const int a_k = 8 * (thread % 4);
    const int a_m = thread / 4;
    const int a_frag_k = 8 * (lane / 16);
    const int a_frag_m = lane % 16;
    const int a_swizzle = a_frag_k ^ (8 * (lane % 8 / 2));
    const int a_swizzled_k = a_k ^ (8 * (a_m / 2 % 4));
    const int b_k = 8 * (thread % 4);
    const int b_n = thread / 4;
    const int b_frag_k = 8 * (lane / 8 % 2);
    const int b_frag_n = warp_n + 8 * (lane / 16) + lane % 8;
    const int b_swizzle = b_frag_k ^ (8 * (lane % 8 / 2));
    const int b_swizzled_k = b_k ^ (8 * (b_n / 2 % 4));

    float acc[TM][TN] = {};

    const __nv_bfloat16* a_global = &A[(m0 + a_m) * K + a_k - k_residue];
    const __nv_bfloat16* b_global = &B[(n0 + b_n) * K + b_k - k_residue];
    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        #pragma unroll
        for (int c = 0; c < BM; c += 16) {
            // As[stage][a_m + c][a_swizzled_k]: unknown: it depends on where its sources are in 128-byte lines
            __pipeline_memcpy_async(&As[stage][a_m + c][a_swizzled_k], &a_global[c * K + BK * stage], 16,
                m0 + a_m + c < M && a_k + BK * stage - k_residue >= 0 ? 0 : 16);
        }
        #pragma unroll
        for (int c = 0; c < BN; c += 16) {
            // Bs[stage][b_n + c][b_swizzled_k]: unknown: it depends on where its sources are in 128-byte lines
            __pipeline_memcpy_async(&Bs[stage][b_n + c][b_swizzled_k], &b_global[c * K + BK * stage], 16,
                b_k + BK * stage - k_residue >= 0 ? 0 : 16);
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
        #pragma unroll
        for (int k = 16; k < BK; k += 16) {
            #pragma unroll
            for (int i = 0; i < TM / 2; ++i) {
                ldmatrix_x4(&a_frag[k / 16][i][0], &As[read_stage][a_frag_m + 16 * i][k ^ a_swizzle]);
            }
            #pragma unroll
            for (int j = 0; j < TN / 2; j += 2) {
                ldmatrix_x4(&b_frag[k / 16][j][0], &Bs[read_stage][b_frag_n + 8 * j][k ^ b_swizzle]);
            }
            // As[write_stage][a_m + k - 16][a_swizzled_k]: unknown: it depends on where
            // its sources are in 128-byte lines
            __pipeline_memcpy_async(&As[write_stage][a_m + k - 16][a_swizzled_k], &a_global[(k - 16) * K + prefetch_k],
                16, m0 + a_m + k - 16 < M ? 0 : 16);
            // Bs[write_stage][b_n + k - 16][b_swizzled_k]: unknown: it depends on where
            // its sources are in 128-byte lines
            __pipeline_memcpy_async(&Bs[write_stage][b_n + k - 16][b_swizzled_k], &b_global[(k - 16) * K + prefetch_k],
                16);
            #pragma unroll
            for (int i = 0; i < TM / 2; ++i) {
                #pragma unroll
                for (int j = 0; j < TN / 2; ++j) {
                    mma_m16n8k16_bf16(&acc[2 * i][2 * j], &acc[2 * i + 1][2 * j], a_frag[(k / 16 + 1) % 2][i],
                        b_frag[(k / 16 + 1) % 2][j]);
                }
            }
        }
        // As[write_stage][a_m + BK - 16][a_swizzled_k]: unknown: it depends on where its sources are in 128-byte lines
        __pipeline_memcpy_async(&As[write_stage][a_m + BK - 16][a_swizzled_k], &a_global[(BK - 16) * K + prefetch_k],
            16, m0 + a_m + BK - 16 < M ? 0 : 16);
        // Bs[write_stage][b_n + BK - 16][b_swizzled_k]: unknown: it depends on where its sources are in 128-byte lines
        __pipeline_memcpy_async(&Bs[write_stage][b_n + BK - 16][b_swizzled_k], &b_global[(BK - 16) * K + prefetch_k],
            16);
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
    #pragma unroll
    for (int e = 0; e < BM * (BN / 4); e += 64) {
        const int tile_m = (thread + e) / (BN / 4);
        const int tile_n = 4 * ((thread + e) % (BN / 4));
        const int m = m0 + tile_m;
        const int n = n0 + tile_n;
        if (m < M) {
            const auto sums = load<4>(&c_tile[tile_m][tile_n]);
            Vector<__nv_bfloat16, 4> c4;
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                c4.data[v] = __float2bfloat16_rn(sums.data[v]);
            }
            store<4>(&C[m * N + n], c4);
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t gemm_tensor_bf16_launch(
    const __nv_bfloat16* A,
    const __nv_bfloat16* B,
    __nv_bfloat16* C,
    int M,
    cudaStream_t stream)
{
    if (M < 1 || M > 65536)
        return cudaErrorInvalidValue;
    gemm_tensor_bf16<<<dim3((N + 31) / 32, (M + 31) / 32), dim3(64), 12288, stream>>>(A, B, C, M);
    return cudaGetLastError();
}

#endif
