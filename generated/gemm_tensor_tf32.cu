// gemm_tensor_tf32: C = A·B of float32 on tensor cores, where `accumulate` allows that operands are rounded to tf32
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 66, K = 72, N = 100
// A         input, float32 [66, 72], aligned to 16 bytes
// B         input, float32 [72, 100], aligned to 16 bytes
// C         output, float32 [66, 100], aligned to 8 bytes
// launch    grid (2, 3, 1), block (128, 1, 1), 18432 bytes of shared memory; family gemm
// pipeline  proved for at most 5 k-tiles: 3 stages, commit groups and barriers order copies and reads
// bounds    36 of 36 accesses proved
// analysis  sm_90: 15 accesses, 8 ideal, 3 costly, 4 unknown
//           worst: C[m * N + n], 12 sectors, ideal 8 (256 bytes in 8 runs)
//
// Made by cugen 0.1.0 from gemm_tensor_tf32.yaml (hash 361258e9517747fe) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   a_global[BK * stage]                              8 sectors, ideal 8 (256 bytes in 8 runs)
//   As[0][a_frag_m + 16 * i][a_swizzle]               4 wavefronts, ideal 4 (128 words over 32 banks)
//   Bs[0][lane_n + 4 * u][(b_frag_n + 8 * j) ^ (8 * ((lane_n + 4 * u) % 4))]
//       1 wavefront, ideal 1 (xor swizzle: 32 banks)
//   a_global[prefetch_k]                              16 sectors, ideal 16 (512 bytes in 8 runs)
//   As[read_stage][a_frag_m + 16 * i][k ^ a_swizzle]  4 wavefronts, ideal 4 (128 words over 32 banks)
//   Bs[read_stage][lane_n + k + 4 * u][(b_frag_n + 8 * j) ^ (8 * ((lane_n + k + 4 * u) % 4))]
//       1 wavefront, ideal 1 (xor swizzle: 32 banks)
//   As[next_stage][a_frag_m + 16 * i][a_swizzle]      4 wavefronts, ideal 4 (128 words over 32 banks)
//   Bs[next_stage][lane_n + 4 * u][(b_frag_n + 8 * j) ^ (8 * ((lane_n + 4 * u) % 4))]
//       1 wavefront, ideal 1 (xor swizzle: 32 banks)

#include <cuda_pipeline_primitives.h>

constexpr int M = 66;
constexpr int K = 72;
constexpr int N = 100;

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

#ifndef CUGEN_MMA_M16N8K8_TF32
#define CUGEN_MMA_M16N8K8_TF32
// D = A * B + D on the tensor cores (PTX ISA: mma.m16n8k8), with A of 16 x 8 and B of 8 x 8 tf32 elements.
// Lane 4 * g + t: a[0] and a[1] hold rows g and g + 8 of A, column t; a[2] and a[3] the
// same rows, 4 columns further on;
// b[0] holds row t of B, column g; b[1] the one 4 further on.
// D in columns 2 * t and 2 * t + 1, rows g (`upper`) and g + 8 (`lower`).
__device__ __forceinline__ void mma_m16n8k8_tf32(
    float* upper, float* lower, const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, "
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

#ifndef CUGEN_TO_TF32
#define CUGEN_TO_TF32
// A float32 rounded to tf32, 11 significant bits: to the nearest one, ties away from zero (PTX ISA: cvt.rna.tf32).
__device__ __forceinline__ unsigned to_tf32(float x)
{
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}

__device__ __forceinline__ unsigned to_tf32(unsigned bits) { return to_tf32(__uint_as_float(bits)); }
#endif

extern "C" __global__ void __launch_bounds__(128) gemm_tensor_tf32(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C)
{
    constexpr int BM = 32, BN = 64, BK = 16, STAGES = 3, TM = 4, TN = 4, WN = 16;

    // circular buffer of 3 stages, tiles in the layout of their operands
    __shared__ __align__(16) float As[STAGES][BM][BK];
    __shared__ __align__(16) float Bs[STAGES][BK][BN];

    // tiles at the edge are shifted inside and overlap others: they need no bounds checks
    const int m0 = min(blockIdx.y * BM, M - BM);
    const int n0 = min(blockIdx.x * BN, N - BN);
    // the first k-tile begins at k = -k_residue, so that all others are full
    constexpr int k_residue = 8;
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    const int warp = thread / 32;
    // warp tile 32 x 16, lanes 8 x 4 as in MMA accumulators
    const int lane_m = lane / 4;
    const int lane_n = lane % 4;
    const int warp_n = WN * warp;
    const int thread_m = lane_m;
    const int thread_n = warp_n + 2 * lane_n;
    const int b_frag_n = warp_n + lane_m;
    const int a_k = 4 * (thread % 4);
    const int a_m = thread / 4;
    const int a_frag_k = 4 * (lane / 16);
    const int a_frag_m = lane % 16;
    const int a_swizzle = a_frag_k ^ (4 * (lane % 8 / 2));
    const int a_swizzled_k = a_k ^ (4 * (a_m / 2 % 4));
    const int b_k = thread / 16;
    const int b_n = 4 * (thread % 16);

    float acc[TM][TN] = {};

    const float* a_global = &A[(m0 + a_m) * K + a_k - k_residue];
    const float* b_global = &B[(b_k - k_residue) * N + n0 + b_n];
    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        // As[stage][a_m][a_swizzled_k]: unknown: it depends on where its sources are in 128-byte lines
        __pipeline_memcpy_async(&As[stage][a_m][a_swizzled_k], &a_global[BK * stage], 16,
            a_k + BK * stage - k_residue >= 0 ? 0 : 16);
        #pragma unroll
        for (int r = 0; r < BK; r += 8) {
            // b_global[(BK * stage + r) * N]: 17 sectors, ideal 16 (512 bytes in 2 runs)
            // Bs[stage][b_k + r][b_n ^ (8 * ((b_k + r) % 4))]: unknown: it depends on where
            // its sources are in 128-byte lines
            __pipeline_memcpy_async(&Bs[stage][b_k + r][b_n ^ (8 * ((b_k + r) % 4))], &b_global[(BK * stage + r) * N],
                16, b_k + BK * stage + r - k_residue >= 0 ? 0 : 16);
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
    for (int i = 0; i < TM / 2; ++i) {
        #pragma unroll
        for (int w = 0; w < 4; ++w) {
            a_frag[0][i][w] = to_tf32(a_frag[0][i][w]);
        }
    }
    #pragma unroll
    for (int j = 0; j < TN / 2; ++j) {
        #pragma unroll
        for (int u = 0; u < 2; ++u) {
            b_frag[0][j][u] = to_tf32(Bs[0][lane_n + 4 * u][(b_frag_n + 8 * j) ^ (8 * ((lane_n + 4 * u) % 4))]);
        }
    }
    for (int k0 = 0, read_stage = 0; k0 < K + k_residue;
        k0 += BK, read_stage = read_stage < STAGES - 1 ? read_stage + 1 : 0) {
        const int write_stage = read_stage > 0 ? read_stage - 1 : STAGES - 1;
        // past the last k-tile: copy it again, so that the loop has no branch
        const int prefetch_k = min(k0 + BK * (STAGES - 1), K + k_residue - BK);
        // As[write_stage][a_m][a_swizzled_k]: unknown: it depends on where its sources are in 128-byte lines
        __pipeline_memcpy_async(&As[write_stage][a_m][a_swizzled_k], &a_global[prefetch_k], 16);
        #pragma unroll
        for (int r = 0; r < BK; r += 8) {
            // b_global[(prefetch_k + r) * N]: 17 sectors, ideal 16 (512 bytes in 2 runs)
            // Bs[write_stage][b_k + r][b_n ^ (8 * ((b_k + r) % 4))]: unknown: it depends on where
            // its sources are in 128-byte lines
            __pipeline_memcpy_async(&Bs[write_stage][b_k + r][b_n ^ (8 * ((b_k + r) % 4))],
                &b_global[(prefetch_k + r) * N], 16);
        }
        __pipeline_commit();
        #pragma unroll
        for (int k = 8; k < BK; k += 8) {
            #pragma unroll
            for (int i = 0; i < TM / 2; ++i) {
                ldmatrix_x4(&a_frag[k / 8][i][0], &As[read_stage][a_frag_m + 16 * i][k ^ a_swizzle]);
            }
            #pragma unroll
            for (int i = 0; i < TM / 2; ++i) {
                #pragma unroll
                for (int w = 0; w < 4; ++w) {
                    a_frag[k / 8][i][w] = to_tf32(a_frag[k / 8][i][w]);
                }
            }
            #pragma unroll
            for (int j = 0; j < TN / 2; ++j) {
                #pragma unroll
                for (int u = 0; u < 2; ++u) {
                    b_frag[k / 8][j][u] =
                        to_tf32(Bs[read_stage][lane_n + k + 4 * u][(b_frag_n + 8 * j)
                                ^ (8 * ((lane_n + k + 4 * u) % 4))]);
                }
            }
            #pragma unroll
            for (int i = 0; i < TM / 2; ++i) {
                #pragma unroll
                for (int j = 0; j < TN / 2; ++j) {
                    mma_m16n8k8_tf32(&acc[2 * i][2 * j], &acc[2 * i + 1][2 * j], a_frag[(k / 8 + 1) % 2][i],
                        b_frag[(k / 8 + 1) % 2][j]);
                }
            }
        }
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
        // fragments of the next k-tile; unused after the last
        const int next_stage = read_stage < STAGES - 1 ? read_stage + 1 : 0;
        #pragma unroll
        for (int i = 0; i < TM / 2; ++i) {
            ldmatrix_x4(&a_frag[0][i][0], &As[next_stage][a_frag_m + 16 * i][a_swizzle]);
        }
        #pragma unroll
        for (int i = 0; i < TM / 2; ++i) {
            #pragma unroll
            for (int w = 0; w < 4; ++w) {
                a_frag[0][i][w] = to_tf32(a_frag[0][i][w]);
            }
        }
        #pragma unroll
        for (int j = 0; j < TN / 2; ++j) {
            #pragma unroll
            for (int u = 0; u < 2; ++u) {
                b_frag[0][j][u] =
                    to_tf32(Bs[next_stage][lane_n + 4 * u][(b_frag_n + 8 * j) ^ (8 * ((lane_n + 4 * u) % 4))]);
            }
        }
        #pragma unroll
        for (int i = 0; i < TM / 2; ++i) {
            #pragma unroll
            for (int j = 0; j < TN / 2; ++j) {
                mma_m16n8k8_tf32(&acc[2 * i][2 * j], &acc[2 * i + 1][2 * j], a_frag[1][i], b_frag[1][j]);
            }
        }
    }

    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int m = m0 + thread_m + 8 * i;
        #pragma unroll
        for (int g = 0; g < TN / 2; ++g) {
            const int n = n0 + thread_n + 8 * g;
            Vector<float, 2> c2;
            #pragma unroll
            for (int v = 0; v < 2; ++v) {
                c2.data[v] = acc[i][2 * g + v];
            }
            // C[m * N + n]: 12 sectors, ideal 8 (256 bytes in 8 runs)
            store<2>(&C[m * N + n], c2);
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t gemm_tensor_tf32_launch(
    const float* A,
    const float* B,
    float* C,
    cudaStream_t stream)
{
    gemm_tensor_tf32<<<dim3((N + 63) / 64, (M + 31) / 32), dim3(128), 0, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
