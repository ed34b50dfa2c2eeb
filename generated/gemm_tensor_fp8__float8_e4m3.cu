// gemm_tensor_fp8__float8_e4m3: C = scale · A·Bᵀ of 8-bit floats on tensor cores, with A in either format
//
// computes  C[m, n] = scale * sum(A[m, k] * B[n, k], k)
// params    M = 48, K = 160, N = 80
// A         input, float8_e4m3 [48, 160], aligned to 16 bytes
// B         input, float8_e4m3 [80, 160], aligned to 16 bytes
// C         output, bfloat16 [48, 80], aligned to 8 bytes
// launch    grid (3, 2, 1), block (64, 1, 1), 12288 bytes of dynamic shared memory; family gemm
// pipeline  proved for at most 3 k-tiles: 3 stages, commit groups and barriers order copies and reads
// bounds    32 of 32 accesses proved
// analysis  sm_90: 17 accesses, 13 ideal, 4 unknown
//
// Made by cugen 0.1.0 from gemm_tensor_fp8.yaml (hash 3811108bd53f5d26) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   a_global[c * K + BK * stage]                      8 sectors, ideal 8 (256 bytes in 8 runs)
//   b_global[c * K + BK * stage]                      8 sectors, ideal 8 (256 bytes in 8 runs)
//   As[0][a_frag_m + 16 * i][a_swizzle]               4 wavefronts, ideal 4 (128 words over 32 banks)
//   Bs[0][b_frag_n + 8 * j][b_swizzle]                4 wavefronts, ideal 4 (128 words over 32 banks)
//   a_global[c * K + prefetch_k]                      16 sectors, ideal 16 (512 bytes in 8 runs)
//   b_global[c * K + prefetch_k]                      16 sectors, ideal 16 (512 bytes in 8 runs)
//   As[read_stage][a_frag_m + 16 * i][k ^ a_swizzle]  4 wavefronts, ideal 4 (128 words over 32 banks)
//   Bs[read_stage][b_frag_n + 8 * j][k ^ b_swizzle]   4 wavefronts, ideal 4 (128 words over 32 banks)
//   As[next_stage][a_frag_m + 16 * i][a_swizzle]      4 wavefronts, ideal 4 (128 words over 32 banks)
//   Bs[next_stage][b_frag_n + 8 * j][b_swizzle]       4 wavefronts, ideal 4 (128 words over 32 banks)
//   c_tile[thread_m + 8 * i][thread_n + 8 * g]        2 wavefronts, ideal 2 (64 words over 32 banks)
//   c_tile[tile_m][tile_n]                            4 wavefronts, ideal 4 (128 words over 32 banks)
//   C[m * N + n]                                      8 sectors, ideal 8 (256 bytes in 4 runs)

#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_pipeline_primitives.h>

constexpr int M = 48;
constexpr int K = 160;
constexpr int N = 80;

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

#ifndef CUGEN_MMA_M16N8K32_E4M3_AS_F16
#define CUGEN_MMA_M16N8K32_E4M3_AS_F16
// D = A * B + D on the tensor cores, with A of 16 x 32 e4m3 and B of 32 x 8 e4m3 elements, by two of mma.m16n8k16 on
// f16, which has all their numbers: the sums keep the precision of float32. The compiler converts each fragment once,
// for all products of it.
// Lane 4 * g + t: a[0] and a[1] hold rows g and g + 8 of A, columns 4 * t to 4 * t + 3; a[2] and a[3] the same rows,
// 16 columns further on; b[0] holds rows 4 * t to 4 * t + 3 of B, column g; b[1] those 16 further on.
// D in columns 2 * t and 2 * t + 1, rows g (`upper`) and g + 8 (`lower`).
__device__ __forceinline__ void mma_m16n8k32_e4m3_as_f16(
    float* upper, float* lower, const unsigned (&a)[4], const unsigned (&b)[2])
{
    #pragma unroll
    for (int k = 0; k < 2; ++k) {
        // The first two elements of each word become columns 2 * t and 2 * t + 1 of f16, the others those 8 further on.
        const unsigned upper_bytes = a[2 * k], lower_bytes = a[2 * k + 1];
        unsigned a_upper[2], a_lower[2], b_halves[2];
        asm("{.reg .b16 low, high; mov.b32 {low, high}, %2; "
            "cvt.rn.f16x2.e4m3x2 %0, low; cvt.rn.f16x2.e4m3x2 %1, high;}"
            : "=r"(a_upper[0]), "=r"(a_upper[1]) : "r"(upper_bytes));
        asm("{.reg .b16 low, high; mov.b32 {low, high}, %2; "
            "cvt.rn.f16x2.e4m3x2 %0, low; cvt.rn.f16x2.e4m3x2 %1, high;}"
            : "=r"(a_lower[0]), "=r"(a_lower[1]) : "r"(lower_bytes));
        asm("{.reg .b16 low, high; mov.b32 {low, high}, %2; "
            "cvt.rn.f16x2.e4m3x2 %0, low; cvt.rn.f16x2.e4m3x2 %1, high;}"
            : "=r"(b_halves[0]), "=r"(b_halves[1]) : "r"(b[k]));
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
            "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(upper[0]), "+f"(upper[1]), "+f"(lower[0]), "+f"(lower[1])
            : "r"(a_upper[0]), "r"(a_lower[0]), "r"(a_upper[1]), "r"(a_lower[1]),
              "r"(b_halves[0]), "r"(b_halves[1]));
    }
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

extern "C" __global__ void __launch_bounds__(64) gemm_tensor_fp8__float8_e4m3(
    const __nv_fp8_e4m3* __restrict__ A,
    const __nv_fp8_e4m3* __restrict__ B,
    __nv_bfloat16* __restrict__ C,
    float scale)
{
    extern __shared__ __align__(16) unsigned char shared_memory[];

    constexpr int BM = 32, BN = 32, BK = 64, STAGES = 3, TM = 4, TN = 4, WN = 16;

    // circular buffer of 3 stages, tiles in the layout of their operands
    __nv_fp8_e4m3 (*As)[BM][BK] = reinterpret_cast<__nv_fp8_e4m3 (*)[BM][BK]>(shared_memory);
    __nv_fp8_e4m3 (*Bs)[BN][BK] = reinterpret_cast<__nv_fp8_e4m3 (*)[BN][BK]>(As + STAGES);
    float (*c_tile)[BN + 8] = reinterpret_cast<float (*)[BN + 8]>(shared_memory);

    // tiles at the edge are shifted inside and overlap others: they need no bounds checks
    const int m0 = min(blockIdx.y * BM, M - BM);
    const int n0 = min(blockIdx.x * BN, N - BN);
    // the first k-tile begins at k = -k_residue, so that all others are full
    constexpr int k_residue = 32;
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
    const int b_k = 16 * (thread % 4);
    const int b_n = thread / 4;
    const int b_frag_k = 16 * (lane / 8 % 2);
    const int b_frag_n = warp_n + 8 * (lane / 16) + lane % 8;
    const int b_swizzle = b_frag_k ^ (16 * (lane % 8 / 2));
    const int b_swizzled_k = b_k ^ (16 * (b_n / 2 % 4));

    float acc[TM][TN] = {};

    const __nv_fp8_e4m3* a_global = &A[(m0 + a_m) * K + a_k - k_residue];
    const __nv_fp8_e4m3* b_global = &B[(n0 + b_n) * K + b_k - k_residue];
    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        #pragma unroll
        for (int c = 0; c < BM; c += 16) {
            // As[stage][a_m + c][a_swizzled_k]: unknown: it depends on where its sources are in 128-byte lines
            __pipeline_memcpy_async(&As[stage][a_m + c][a_swizzled_k], &a_global[c * K + BK * stage], 16,
                a_k + BK * stage - k_residue >= 0 ? 0 : 16);
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
        for (int c = 0; c < BM; c += 16) {
            // As[write_stage][a_m + c][a_swizzled_k]: unknown: it depends on where its sources are in 128-byte lines
            __pipeline_memcpy_async(&As[write_stage][a_m + c][a_swizzled_k], &a_global[c * K + prefetch_k], 16);
        }
        #pragma unroll
        for (int c = 0; c < BN; c += 16) {
            // Bs[write_stage][b_n + c][b_swizzled_k]: unknown: it depends on where its sources are in 128-byte lines
            __pipeline_memcpy_async(&Bs[write_stage][b_n + c][b_swizzled_k], &b_global[c * K + prefetch_k], 16);
        }
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
                    mma_m16n8k32_e4m3_as_f16(&acc[2 * i][2 * j], &acc[2 * i + 1][2 * j], a_frag[(k / 32 + 1) % 2][i],
                        b_frag[(k / 32 + 1) % 2][j]);
                }
            }
        }
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
                mma_m16n8k32_e4m3_as_f16(&acc[2 * i][2 * j], &acc[2 * i + 1][2 * j], a_frag[1][i], b_frag[1][j]);
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
        const auto sums = load<4>(&c_tile[tile_m][tile_n]);
        Vector<__nv_bfloat16, 4> c4;
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            c4.data[v] = __float2bfloat16_rn(scale * sums.data[v]);
        }
        store<4>(&C[m * N + n], c4);
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t gemm_tensor_fp8__float8_e4m3_launch(
    const __nv_fp8_e4m3* A,
    const __nv_fp8_e4m3* B,
    __nv_bfloat16* C,
    float scale,
    cudaStream_t stream)
{
    gemm_tensor_fp8__float8_e4m3<<<dim3((N + 31) / 32, (M + 31) / 32), dim3(64), 12288, stream>>>(A, B, C, scale);
    return cudaGetLastError();
}

#endif
