// conv_weight_gradient: The gradient of a convolution by its weights, channels last; an
// implicit GEMM over images and pixels
//
// computes  dw[k, r, s, c] = sum(dy[n, i, j, k] * x[n, i + r - 1, j + s - 1, c], n, i, j)
// params    N = 4, H = 12, W = 10, C = 24, K = 32
// x         input, float32 [4, 12, 10, 24], outside: zero, aligned to 16 bytes
// dy        input, float32 [4, 12, 10, 32], aligned to 16 bytes
// dw        output, float32 [32, 3, 3, 24], aligned to 16 bytes
// launch    grid (28, 1, 1), block (256, 1, 1), clusters of 4, 24576 bytes of dynamic shared memory; family gemm
// pipeline  proved for at most 4 k-tiles: 3 stages, commit groups and barriers order copies and reads
// bounds    20 of 22 accesses proved, 2 enumerated
// analysis  sm_90: 19 accesses, 16 ideal, 3 unknown
//
// Made by cugen 0.1.0 from conv_weight_gradient.yaml (hash 42f4b7ab438ffe60) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   dy_tiles[stage][dy_nij][dy_k]                             4 wavefronts, ideal 4 (128 words over 32 banks)
//   dy_global[BK * stage * K]                                 16 sectors, ideal 16 (512 contiguous bytes)
//   x[((n * H + r_in) * W + s_in) * C + c]                    13 sectors, ideal 13 (416 contiguous bytes), at 2 places
//   dy_shared[0][0][0]                                        2 wavefronts, ideal 2 (conflict-free)
//   x_shared[0][0][0]                                         2 wavefronts, ideal 2 (conflict-free)
//   dy_tiles[write_stage][dy_nij][dy_k]                       4 wavefronts, ideal 4 (128 words over 32 banks)
//   dy_global[prefetch_k * K]                                 16 sectors, ideal 16 (512 contiguous bytes)
//   dy_shared[read_stage][nij_][0]                            2 wavefronts, ideal 2 (conflict-free)
//   x_shared[read_stage][nij_][0]                             2 wavefronts, ideal 2 (conflict-free)
//   dy_shared[next_stage][0][0]                               2 wavefronts, ideal 2 (conflict-free)
//   x_shared[next_stage][0][0]                                2 wavefronts, ideal 2 (conflict-free)
//   partials[k_slice][thread_m + i_][thread_n]                4 wavefronts, ideal 4 (128 words over 32 banks)
//   partials[s_][thread / (BN / 4)][4 * (thread % (BN / 4))]  4 wavefronts, ideal 4 (128 words over 32 banks)
//   partials[0][thread / (BN / 4)][4 * (thread % (BN / 4))]   4 wavefronts, ideal 4 (128 words over 32 banks)
//   dw[k * (9 * C) + rsc_]                                    16 sectors, ideal 16 (512 bytes in 4 runs)

#include <cooperative_groups.h>
#include <cuda_pipeline_primitives.h>

constexpr int H = 12;
constexpr int W = 10;
constexpr int C = 24;
constexpr int K = 32;

#ifndef CUGEN_VECTOR
#define CUGEN_VECTOR
// `count` elements, moved by one vector access.
template <typename T, int count>
struct alignas(count * sizeof(T)) Vector {
    T data[count];
};
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

extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(256) conv_weight_gradient(
    const float* __restrict__ x,
    const float* __restrict__ dy,
    float* __restrict__ dw)
{
    const auto cluster = cooperative_groups::this_cluster();
    extern __shared__ __align__(16) unsigned char shared_memory[];

    constexpr int BM = 32, BN = 32, BK = 32, STAGES = 3, TM = 4, TN = 4, WM = 16;

    // circular buffer of 3 stages, [stage][nij][k or rsc]
    float (*dy_tiles)[BK][BM] = reinterpret_cast<float (*)[BK][BM]>(shared_memory);
    float (*xs)[BK][BN] = reinterpret_cast<float (*)[BK][BN]>(dy_tiles + STAGES);
    float (*partials)[BM][BN + 4] = reinterpret_cast<float (*)[BM][BN + 4]>(shared_memory);

    // split-K: the 4 blocks of a cluster each take a range of nij
    const int rank = blockIdx.x % 4;
    const int k_offset = BK * (15 * rank / 4);
    const int k_length = BK * ((15 * rank + 15) / 4) - k_offset;
    // tiles at the edge are shifted inside and overlap others: they need no bounds checks
    const int k0 = blockIdx.y * BM;
    const int rsc0 = min(blockIdx.x / 4 * BN, 9 * C - BN);
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    // sliced-K: each warp group multiplies 8 of the 32 nij of a tile, with copies and barriers of its own
    const int k_slice = thread / 64;
    const int thread_in_slice = thread % 64;
    const int warp = thread_in_slice / 32;
    // warp tile 16 x 32, lanes 4 x 8 interleaved so that lane pairs broadcast
    const int lane_m = 2 * (lane / 16) + lane % 2;
    const int lane_n = lane / 2 % 8;
    const int thread_m = WM * warp + 4 * lane_m;
    const int thread_n = 4 * lane_n;
    const int dy_nij = BK / 4 * k_slice + thread_in_slice / 8;
    const int dy_k = 4 * (thread_in_slice % 8);
    // implicit GEMM: copies of x compute r, s, c from rsc and n, i, j from nij
    const int x_nij = BK / 4 * k_slice + thread_in_slice / 8;
    const int x_rsc = 4 * (thread_in_slice % 8);

    float acc[TM][TN] = {};

    const float* dy_global = &dy[(k_offset + dy_nij) * K + k0 + dy_k];
    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        __pipeline_memcpy_async(&dy_tiles[stage][dy_nij][dy_k], &dy_global[BK * stage * K], 16);
        const int rsc = rsc0 + x_rsc;
        const int r = rsc / (3 * C);
        const int s = rsc / C % 3;
        const int c = rsc % C;
        const int nij = k_offset + x_nij + BK * stage;
        const int n = nij / (H * W);
        const int i = nij / W % H;
        const int j = nij % W;
        const int r_in = r + i - 1;
        const int s_in = s + j - 1;
        // xs[stage][x_nij][x_rsc]: unknown: it depends on where its sources are in 128-byte lines
        __pipeline_memcpy_async(&xs[stage][x_nij][x_rsc], &x[((n * H + r_in) * W + s_in) * C + c], 16,
            r_in >= 0 && r_in < H && s_in >= 0 && s_in < W ? 0 : 16);
        __pipeline_commit();
    }

    __pipeline_wait_prior(STAGES - 2);
    __barrier_sync_count(k_slice + 1, 64);
    // register fragments of A and B for one k, double-buffered
    Vector<float, 4> dy_frag[2];
    Vector<float, 4> x_frag[2];
    const float (*dy_shared)[BK][BM] =
        reinterpret_cast<const float (*)[BK][BM]>(&dy_tiles[0][BK / 4 * k_slice][thread_m]);
    const float (*x_shared)[BK][BN] = reinterpret_cast<const float (*)[BK][BN]>(&xs[0][BK / 4 * k_slice][thread_n]);
    dy_frag[0] = load<4>(&dy_shared[0][0][0]);
    x_frag[0] = load<4>(&x_shared[0][0][0]);
    for (int nij0 = 0, read_stage = 0; nij0 < k_length;
        nij0 += BK, read_stage = read_stage < STAGES - 1 ? read_stage + 1 : 0) {
        const int write_stage = read_stage > 0 ? read_stage - 1 : STAGES - 1;
        // past the last k-tile: copy it again, so that the loop has no branch
        const int prefetch_k = min(nij0 + BK * (STAGES - 1), k_length - BK);
        #pragma unroll
        for (int nij_ = 1; nij_ < BK / 4; ++nij_) {
            if (nij_ == BK / 4 / 4) {
                __pipeline_memcpy_async(&dy_tiles[write_stage][dy_nij][dy_k], &dy_global[prefetch_k * K], 16);
            }
            if (nij_ == BK / 4 / 2) {
                const int rsc = rsc0 + x_rsc;
                const int r = rsc / (3 * C);
                const int s = rsc / C % 3;
                const int c = rsc % C;
                const int nij = prefetch_k + k_offset + x_nij;
                const int n = nij / (H * W);
                const int i = nij / W % H;
                const int j = nij % W;
                const int r_in = r + i - 1;
                const int s_in = s + j - 1;
                // xs[write_stage][x_nij][x_rsc]: unknown: it depends on where its sources are in 128-byte lines
                __pipeline_memcpy_async(&xs[write_stage][x_nij][x_rsc], &x[((n * H + r_in) * W + s_in) * C + c], 16,
                    r_in >= 0 && r_in < H && s_in >= 0 && s_in < W ? 0 : 16);
                __pipeline_commit();
            }
            dy_frag[nij_ % 2] = load<4>(&dy_shared[read_stage][nij_][0]);
            x_frag[nij_ % 2] = load<4>(&x_shared[read_stage][nij_][0]);
            #pragma unroll
            for (int i_ = 0; i_ < TM; ++i_) {
                #pragma unroll
                for (int t = 0; t < TN; ++t) {
                    // serpentine: every other row backwards
                    const int j_ = i_ % 2 == 0 ? t : TN - t - 1;
                    acc[i_][j_] += dy_frag[(nij_ + 1) % 2].data[i_] * x_frag[(nij_ + 1) % 2].data[j_];
                }
            }
        }
        __pipeline_wait_prior(STAGES - 2);
        __barrier_sync_count(k_slice + 1, 64);
        // fragments of the next k-tile; unused after the last
        const int next_stage = read_stage < STAGES - 1 ? read_stage + 1 : 0;
        dy_frag[0] = load<4>(&dy_shared[next_stage][0][0]);
        x_frag[0] = load<4>(&x_shared[next_stage][0][0]);
        #pragma unroll
        for (int i_ = 0; i_ < TM; ++i_) {
            #pragma unroll
            for (int t = 0; t < TN; ++t) {
                // serpentine: every other row backwards
                const int j_ = i_ % 2 == 0 ? t : TN - t - 1;
                acc[i_][j_] += dy_frag[1].data[i_] * x_frag[1].data[j_];
            }
        }
    }
    // drain the outstanding copies
    __pipeline_wait_prior(0);

    // opaque 1.0f: keeps ptxas from choosing accumulator registers for the vector stores, which
    // causes register-bank conflicts
    const float opaque_one = blockDim.z;
    // partial sums of the k slices, in the memory of the pipeline after its last read
    __syncthreads();
    #pragma unroll
    for (int i_ = 0; i_ < TM; ++i_) {
        Vector<float, 4> acc_vector;
        #pragma unroll
        for (int w = 0; w < 4; ++w) {
            acc_vector.data[w] = opaque_one * acc[i_][w];
        }
        store<4>(&partials[k_slice][thread_m + i_][thread_n], acc_vector);
    }
    __syncthreads();
    // reduce the k slices, in place of the first
    Vector<float, 4> slice_sums[4];
    #pragma unroll
    for (int s_ = 0; s_ < 4; ++s_) {
        slice_sums[s_] = load<4>(&partials[s_][thread / (BN / 4)][4 * (thread % (BN / 4))]);
    }
    Vector<float, 4> slice_total;
    #pragma unroll
    for (int w = 0; w < 4; ++w) {
        slice_total.data[w] = slice_sums[0].data[w] + slice_sums[1].data[w] + slice_sums[2].data[w]
            + slice_sums[3].data[w];
    }
    store<4>(&partials[0][thread / (BN / 4)][4 * (thread % (BN / 4))], slice_total);
    cluster.sync();
    // each block reduces a part of the tile, in block order
    const int vector_id = 64 * rank + thread;
    if (thread < 64) {
        const int k = k0 + vector_id / (BN / 4);
        const int rsc_ = rsc0 + 4 * (vector_id % (BN / 4));
        Vector<float, 4> block_sums[4];
        #pragma unroll
        for (int p = 0; p < 4; ++p) {
            // cluster.map_shared_rank(partials, p)[0][vector_id / (BN / 4)][4 * (vector_id % (BN / 4))]: unknown:
            // distributed shared memory is not modelled
            block_sums[p] =
                load<4>(&cluster.map_shared_rank(partials, p)[0][vector_id / (BN / 4)][4 * (vector_id % (BN / 4))]);
        }
        Vector<float, 4> dw4;
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            dw4.data[v] = block_sums[0].data[v] + block_sums[1].data[v] + block_sums[2].data[v] + block_sums[3].data[v];
        }
        store<4>(&dw[k * (9 * C) + rsc_], dw4);
    }
    // no block exits while others read its shared memory
    cluster.sync();
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t conv_weight_gradient_launch(
    const float* x,
    const float* dy,
    float* dw,
    cudaStream_t stream)
{
    conv_weight_gradient<<<dim3(4 * ((9 * C + 31) / 32), (K + 31) / 32), dim3(256), 24576, stream>>>(x, dy, dw);
    return cudaGetLastError();
}

#endif
