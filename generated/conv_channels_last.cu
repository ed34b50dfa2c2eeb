// conv_channels_last: A convolution with channels last, on tensor cores; an implicit GEMM, whose
// copies move vectors of channels
//
// computes  y[n, i, j, k] = relu(sum(x[n, i + r - 1, j + s - 1, c] * w[k, r, s, c], r, s, c))
// params    N = 2, H = 15, W = 14, C = 64, K = 64
// x         input, bfloat16 [2, 15, 14, 64], outside: zero, aligned to 16 bytes
// w         input, bfloat16 [64, 3, 3, 64], aligned to 16 bytes
// y         output, bfloat16 [2, 15, 14, 64], aligned to 8 bytes
// launch    grid (8, 14, 1), block (128, 1, 1), clusters of 4, 32768 bytes of dynamic shared memory; family gemm
// pipeline  proved for at most 3 k-tiles: 4 stages, commit groups and barriers order copies and reads
// bounds    27 of 28 accesses proved, 1 enumerated
// analysis  sm_90: 13 accesses, 11 ideal, 2 unknown
//
// Made by cugen 0.1.0 from conv_channels_last.yaml (hash cffc4ad948dff7a2) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   x[((n * H + i_in) * W + j_in) * C + c]                  16 sectors, ideal 16 (512 contiguous bytes)
//   ws[stage][w_k + c_][w_swizzled_k]                       4 wavefronts, ideal 4 (128 words over 32 banks)
//   w_global[c_ * (9 * C) + prologue_k]                     16 sectors, ideal 16 (512 bytes in 4 runs)
//   xs[0][x_frag_nij + 16 * i_][x_swizzle]                  4 wavefronts, ideal 4 (128 words over 32 banks)
//   ws[0][w_frag_k + 8 * j_][w_swizzle]                     4 wavefronts, ideal 4 (128 words over 32 banks)
//   xs[read_stage][x_frag_nij + 16 * i_][rsc_ ^ x_swizzle]  4 wavefronts, ideal 4 (128 words over 32 banks)
//   ws[read_stage][w_frag_k + 8 * j_][rsc_ ^ w_swizzle]     4 wavefronts, ideal 4 (128 words over 32 banks)
//   xs[next_stage][x_frag_nij + 16 * i_][x_swizzle]         4 wavefronts, ideal 4 (128 words over 32 banks)
//   ws[next_stage][w_frag_k + 8 * j_][w_swizzle]            4 wavefronts, ideal 4 (128 words over 32 banks)
//   partials[thread_m + 8 * i_][thread_n + 8 * g]           2 wavefronts, ideal 2 (64 words over 32 banks)
//   y[nij_ * K + k]                                         8 sectors, ideal 8 (256 bytes in 4 runs)

#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_pipeline_primitives.h>

constexpr int N = 2;
constexpr int H = 15;
constexpr int W = 14;
constexpr int C = 64;
constexpr int K = 64;

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

#ifndef CUGEN_MAXIMUM_FLOAT
#define CUGEN_MAXIMUM_FLOAT
// Maximum; NaN if an operand is NaN.
__device__ __forceinline__ float maximum(float a, float b)
{
#if __CUDA_ARCH__ >= 800
    float result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
#else
    return a > b || a != a ? a : b;
#endif
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

extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(128) conv_channels_last(
    const __nv_bfloat16* __restrict__ x,
    const __nv_bfloat16* __restrict__ w,
    __nv_bfloat16* __restrict__ y)
{
    const auto cluster = cooperative_groups::this_cluster();
    extern __shared__ __align__(16) unsigned char shared_memory[];

    constexpr int BM = 32, BN = 32, BK = 64, STAGES = 4, TM = 2, TN = 4, WM = 16, WN = 16;

    // circular buffer of 4 stages, tiles in the layout of their operands
    __nv_bfloat16 (*xs)[BM][BK] = reinterpret_cast<__nv_bfloat16 (*)[BM][BK]>(shared_memory);
    __nv_bfloat16 (*ws)[BN][BK] = reinterpret_cast<__nv_bfloat16 (*)[BN][BK]>(xs + STAGES);
    float (*partials)[BN + 8] = reinterpret_cast<float (*)[BN + 8]>(shared_memory);

    // split-K: the 4 blocks of a cluster each take a range of rsc
    const int rank = blockIdx.x % 4;
    const int k_offset = BK * (9 * rank / 4);
    const int k_length = BK * ((9 * rank + 9) / 4) - k_offset;
    // tiles at the edge are shifted inside and overlap others: they need no bounds checks
    const int nij0 = min(blockIdx.y * BM, H * N * W - BM);
    const int k0 = blockIdx.x / 4 * BN;
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
    // implicit GEMM: copies of x compute n, i, j from nij and r, s, c from rsc
    const int x_rsc = 8 * (thread % 8);
    const int x_nij = thread / 8;
    const int x_frag_rsc = 8 * (lane / 16);
    const int x_frag_nij = warp_m + lane % 16;
    const int x_swizzle = x_frag_rsc ^ (8 * (lane % 8));
    const int x_swizzled_k = x_rsc ^ (8 * (x_nij % 8));
    const int w_rsc = 8 * (thread % 8);
    const int w_k = thread / 8;
    const int w_frag_rsc = 8 * (lane / 8 % 2);
    const int w_frag_k = warp_n + 8 * (lane / 16) + lane % 8;
    const int w_swizzle = w_frag_rsc ^ (8 * (lane % 8));
    const int w_swizzled_k = w_rsc ^ (8 * (w_k % 8));

    float acc[TM][TN] = {};

    const __nv_bfloat16* w_global = &w[(k0 + w_k) * (9 * C) + k_offset + w_rsc];
    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        const int prologue_k = min(BK * stage, k_length - BK);
        #pragma unroll
        for (int c_ = 0; c_ < BM; c_ += 16) {
            const int nij = nij0 + x_nij + c_;
            const int n = nij / (H * W);
            const int i = nij / W % H;
            const int j = nij % W;
            const int rsc = prologue_k + k_offset + x_rsc;
            const int r = rsc / (3 * C);
            const int s = rsc / C % 3;
            const int c = rsc % C;
            const int i_in = i + r - 1;
            const int j_in = j + s - 1;
            // xs[stage][x_nij + c_][x_swizzled_k]: unknown: it depends on where its sources are in 128-byte lines
            __pipeline_memcpy_async(&xs[stage][x_nij + c_][x_swizzled_k], &x[((n * H + i_in) * W + j_in) * C + c], 16,
                i_in >= 0 && i_in < H && j_in >= 0 && j_in < W ? 0 : 16);
        }
        #pragma unroll
        for (int c_ = 0; c_ < BN; c_ += 16) {
            __pipeline_memcpy_async(&ws[stage][w_k + c_][w_swizzled_k], &w_global[c_ * (9 * C) + prologue_k], 16);
        }
        __pipeline_commit();
    }

    __pipeline_wait_prior(STAGES - 2);
    __syncthreads();
    // register fragments of A and B for one MMA, double-buffered
    unsigned int x_frag[2][TM / 2][4];
    unsigned int w_frag[2][TN / 2][2];
    #pragma unroll
    for (int i_ = 0; i_ < TM / 2; ++i_) {
        ldmatrix_x4(&x_frag[0][i_][0], &xs[0][x_frag_nij + 16 * i_][x_swizzle]);
    }
    #pragma unroll
    for (int j_ = 0; j_ < TN / 2; j_ += 2) {
        ldmatrix_x4(&w_frag[0][j_][0], &ws[0][w_frag_k + 8 * j_][w_swizzle]);
    }
    for (int rsc0 = 0; rsc0 < k_length; rsc0 += BK) {
        const int read_stage = rsc0 / BK;
        // no k-tile is left to copy: an empty group, since the wait counts groups
        __pipeline_commit();
        #pragma unroll
        for (int rsc_ = 16; rsc_ < BK; rsc_ += 16) {
            #pragma unroll
            for (int i_ = 0; i_ < TM / 2; ++i_) {
                ldmatrix_x4(&x_frag[rsc_ / 16 % 2][i_][0], &xs[read_stage][x_frag_nij + 16 * i_][rsc_ ^ x_swizzle]);
            }
            #pragma unroll
            for (int j_ = 0; j_ < TN / 2; j_ += 2) {
                ldmatrix_x4(&w_frag[rsc_ / 16 % 2][j_][0], &ws[read_stage][w_frag_k + 8 * j_][rsc_ ^ w_swizzle]);
            }
            #pragma unroll
            for (int i_ = 0; i_ < TM / 2; ++i_) {
                #pragma unroll
                for (int j_ = 0; j_ < TN / 2; ++j_) {
                    mma_m16n8k16_bf16(&acc[2 * i_][2 * j_], &acc[2 * i_ + 1][2 * j_], x_frag[(rsc_ / 16 + 1) % 2][i_],
                        w_frag[(rsc_ / 16 + 1) % 2][j_]);
                }
            }
        }
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
        // fragments of the next k-tile; unused after the last
        const int next_stage = rsc0 + BK < k_length ? rsc0 / BK + 1 : read_stage;
        #pragma unroll
        for (int i_ = 0; i_ < TM / 2; ++i_) {
            ldmatrix_x4(&x_frag[0][i_][0], &xs[next_stage][x_frag_nij + 16 * i_][x_swizzle]);
        }
        #pragma unroll
        for (int j_ = 0; j_ < TN / 2; j_ += 2) {
            ldmatrix_x4(&w_frag[0][j_][0], &ws[next_stage][w_frag_k + 8 * j_][w_swizzle]);
        }
        #pragma unroll
        for (int i_ = 0; i_ < TM / 2; ++i_) {
            #pragma unroll
            for (int j_ = 0; j_ < TN / 2; ++j_) {
                mma_m16n8k16_bf16(&acc[2 * i_][2 * j_], &acc[2 * i_ + 1][2 * j_], x_frag[1][i_], w_frag[1][j_]);
            }
        }
    }
    // drain the outstanding copies
    __pipeline_wait_prior(0);

    // the block's sums, in the memory of the pipeline after its last read
    __syncthreads();
    #pragma unroll
    for (int i_ = 0; i_ < TM; ++i_) {
        #pragma unroll
        for (int g = 0; g < TN / 2; ++g) {
            Vector<float, 2> acc_vector;
            #pragma unroll
            for (int w_ = 0; w_ < 2; ++w_) {
                acc_vector.data[w_] = acc[i_][2 * g + w_];
            }
            store<2>(&partials[thread_m + 8 * i_][thread_n + 8 * g], acc_vector);
        }
    }
    cluster.sync();
    // each block reduces a part of the tile, in block order
    const int vector_id = 64 * rank + thread;
    if (thread < 64) {
        const int nij_ = nij0 + vector_id / (BN / 4);
        const int k = k0 + 4 * (vector_id % (BN / 4));
        Vector<float, 4> block_sums[4];
        #pragma unroll
        for (int p = 0; p < 4; ++p) {
            // cluster.map_shared_rank(partials, p)[vector_id / (BN / 4)][4 * (vector_id % (BN / 4))]: unknown:
            // distributed shared memory is not modelled
            block_sums[p] =
                load<4>(&cluster.map_shared_rank(partials, p)[vector_id / (BN / 4)][4 * (vector_id % (BN / 4))]);
        }
        Vector<__nv_bfloat16, 4> y4;
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            y4.data[v] = __float2bfloat16_rn(maximum(block_sums[0].data[v] + block_sums[1].data[v]
                + block_sums[2].data[v] + block_sums[3].data[v], 0.0f));
        }
        store<4>(&y[nij_ * K + k], y4);
    }
    // no block exits while others read its shared memory
    cluster.sync();
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t conv_channels_last_launch(
    const __nv_bfloat16* x,
    const __nv_bfloat16* w,
    __nv_bfloat16* y,
    cudaStream_t stream)
{
    conv_channels_last<<<dim3(4 * ((K + 31) / 32), (H * N * W + 31) / 32), dim3(128), 32768, stream>>>(x, w, y);
    return cudaGetLastError();
}

#endif
