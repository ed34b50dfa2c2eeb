// conv_input_gradient: The gradient of a convolution by its input, channels first; a launch makes the contracted
// indices of the weights adjacent
//
// computes                    dx[n, c, i, j] = sum(dy[n, k, i - r + 1, j - s + 1] * w[k, c, r, s], k, r, s)
// params                      N = 4, C = 24, K = 32, H = 12, W = 10
// dy                          input, float32 [4, 32, 12, 10], outside: zero
// w                           input, float32 [32, 24, 3, 3]
// dx                          output, float32 [4, 24, 12, 10], aligned to 16 bytes
// conv_input_gradient_w_last  grid (1, 2, 24), block (9, 28, 1); family map
// conv_input_gradient_dx      grid (16, 1, 4), block (256, 1, 1), clusters of 4, 26112 bytes of dynamic shared
//                             memory; family gemm
// pipeline                    conv_input_gradient_dx: proved for at most 3 k-tiles: 3 stages, commit groups and
//                             barriers order copies and reads
// bounds                      24 of 24 accesses proved
// analysis                    sm_90: 21 accesses, 12 ideal, 6 costly, 3 unknown
//                             worst: w_lasts[stage][w_last_krs][w_last_c + c], 4 wavefronts, ideal 1; 3.25 on
//                             average
//
// Made by cugen 0.1.0 from conv_input_gradient.yaml (hash bcb1f05ad2ec2cbe) for sm_90. Edit the spec, not this file.
//
// Ideal accesses of conv_input_gradient_dx, without a remark in the code:
//   w_last_global[c * (9 * K) + BK * stage]                   4 sectors, ideal 4 (128 bytes in 4 runs)
//   w_last_shared[0][0][0]                                    2 wavefronts, ideal 2 (conflict-free)
//   dy_shared[0][0][0]                                        2 wavefronts, ideal 2 (conflict-free)
//   w_last_global[c * (9 * K) + prefetch_k]                   4 sectors, ideal 4 (128 bytes in 4 runs)
//   w_last_shared[read_stage][krs_][0]                        2 wavefronts, ideal 2 (conflict-free)
//   dy_shared[read_stage][krs_][0]                            2 wavefronts, ideal 2 (conflict-free)
//   w_last_shared[next_stage][0][0]                           2 wavefronts, ideal 2 (conflict-free)
//   dy_shared[next_stage][0][0]                               2 wavefronts, ideal 2 (conflict-free)
//   partials[k_slice][thread_m + i_][thread_n]                4 wavefronts, ideal 4 (128 words over 32 banks)
//   partials[s_][thread / (BN / 4)][4 * (thread % (BN / 4))]  4 wavefronts, ideal 4 (128 words over 32 banks)
//   partials[0][thread / (BN / 4)][4 * (thread % (BN / 4))]   4 wavefronts, ideal 4 (128 words over 32 banks)
//   dx[(n * C + c_) * (H * W) + ij_]                          16 sectors, ideal 16 (512 bytes in 4 runs)

#include <cooperative_groups.h>
#include <cuda_pipeline_primitives.h>

constexpr int C = 24;
constexpr int K = 32;
constexpr int H = 12;
constexpr int W = 10;

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

extern "C" __global__ void __launch_bounds__(252) conv_input_gradient_w_last(
    const float* __restrict__ w,
    float* __restrict__ w_last)
{
    const int c = blockIdx.z;
    const int k = blockIdx.y * 28 + threadIdx.y;
    const int rs = blockIdx.x * 9 + threadIdx.x;
    if (k >= K)
        return;

    // w[(k * C + c) * 9 + rs]: 9 sectors, ideal 4; 7.1 on average (128 bytes in 5 runs)
    // w_last[(c * K + k) * 9 + rs]: 5 sectors, ideal 4; 3.8 on average (misaligned by 16 bytes)
    w_last[(c * K + k) * 9 + rs] = w[(k * C + c) * 9 + rs];
}

extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(256) conv_input_gradient_dx(
    const float* __restrict__ dy,
    float* __restrict__ dx,
    const float* __restrict__ w_last)
{
    const auto cluster = cooperative_groups::this_cluster();
    extern __shared__ __align__(16) unsigned char shared_memory[];

    constexpr int BM = 32, BN = 32, BK = 32, STAGES = 3, TM = 4, TN = 4, WM = 16;

    // circular buffer of 3 stages, [stage][krs][c or ij]
    float (*w_lasts)[BK][BM + 4] = reinterpret_cast<float (*)[BK][BM + 4]>(shared_memory);
    float (*dy_tiles)[BK][BN] = reinterpret_cast<float (*)[BK][BN]>(w_lasts + STAGES);
    float (*partials)[BM][BN + 4] = reinterpret_cast<float (*)[BM][BN + 4]>(shared_memory);

    // split-K: the 4 blocks of a cluster each take a range of krs
    const int rank = blockIdx.x % 4;
    const int k_offset = BK * (9 * rank / 4);
    const int k_length = BK * ((9 * rank + 9) / 4) - k_offset;
    const int n = blockIdx.z;
    // tiles at the edge are shifted inside and overlap others: they need no bounds checks
    const int c0 = blockIdx.y * BM;
    const int ij0 = min(blockIdx.x / 4 * BN, H * W - BN);
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    // sliced-K: each warp group multiplies 8 of the 32 krs of a tile, with copies and barriers of its own
    const int k_slice = thread / 64;
    const int thread_in_slice = thread % 64;
    const int warp = thread_in_slice / 32;
    // warp tile 16 x 32, lanes 4 x 8 interleaved so that lane pairs broadcast
    const int lane_m = 2 * (lane / 16) + lane % 2;
    const int lane_n = lane / 2 % 8;
    const int thread_m = WM * warp + 4 * lane_m;
    const int thread_n = 4 * lane_n;
    const int w_last_krs = BK / 4 * k_slice + thread_in_slice % 8;
    const int w_last_c = thread_in_slice / 8;
    // implicit GEMM: copies of dy compute i, j from ij and k, r, s from krs
    const int dy_krs = BK / 4 * k_slice + thread_in_slice / 32;
    const int dy_ij = thread_in_slice % 32;

    float acc[TM][TN] = {};

    const float* w_last_global = &w_last[(c0 + w_last_c) * (9 * K) + k_offset + w_last_krs];
    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        #pragma unroll
        for (int c = 0; c < BM; c += 8) {
            // w_lasts[stage][w_last_krs][w_last_c + c]: 4 wavefronts, ideal 1; 3.25 on average
            __pipeline_memcpy_async(&w_lasts[stage][w_last_krs][w_last_c + c], &w_last_global[c * (9 * K) + BK * stage],
                4, c0 + w_last_c + c < C ? 0 : 4);
        }
        #pragma unroll
        for (int r_ = 0; r_ < BK / 4; r_ += 2) {
            const int ij = ij0 + dy_ij;
            const int i = ij / W;
            const int j = ij % W;
            const int krs = k_offset + dy_krs + BK * stage + r_;
            const int k = krs / 9;
            const int r = krs / 3 % 3;
            const int s = krs % 3;
            const int i_in = i + 1 - r;
            const int j_in = j + 1 - s;
            // dy[((n * K + k) * H + i_in) * W + j_in]: 5 sectors, ideal 4; 4.5 on average (misaligned by 8 bytes)
            // dy_tiles[stage][dy_krs + r_][dy_ij]: unknown: the source pattern differs between its warps
            __pipeline_memcpy_async(&dy_tiles[stage][dy_krs + r_][dy_ij], &dy[((n * K + k) * H + i_in) * W + j_in], 4,
                i_in >= 0 && i_in < H && j_in >= 0 && j_in < W ? 0 : 4);
        }
        __pipeline_commit();
    }

    __pipeline_wait_prior(STAGES - 2);
    __barrier_sync_count(k_slice + 1, 64);
    // register fragments of A and B for one k, double-buffered
    Vector<float, 4> w_last_frag[2];
    Vector<float, 4> dy_frag[2];
    const float (*w_last_shared)[BK][BM + 4] =
        reinterpret_cast<const float (*)[BK][BM + 4]>(&w_lasts[0][BK / 4 * k_slice][thread_m]);
    const float (*dy_shared)[BK][BN] =
        reinterpret_cast<const float (*)[BK][BN]>(&dy_tiles[0][BK / 4 * k_slice][thread_n]);
    w_last_frag[0] = load<4>(&w_last_shared[0][0][0]);
    dy_frag[0] = load<4>(&dy_shared[0][0][0]);
    for (int krs0 = 0; krs0 < k_length; krs0 += BK) {
        const int read_stage = krs0 / BK % STAGES;
        const int write_stage = (krs0 / BK + STAGES - 1) % STAGES;
        // past the last k-tile: copy it again, so that the loop has no branch
        const int prefetch_k = min(krs0 + BK * (STAGES - 1), k_length - BK);
        #pragma unroll
        for (int krs_ = 1; krs_ < BK / 4; ++krs_) {
            if (krs_ == BK / 4 / 4) {
                #pragma unroll
                for (int c = 0; c < BM; c += 8) {
                    // w_lasts[write_stage][w_last_krs][w_last_c + c]: 4 wavefronts, ideal 1; 3.25 on average
                    __pipeline_memcpy_async(&w_lasts[write_stage][w_last_krs][w_last_c + c],
                        &w_last_global[c * (9 * K) + prefetch_k], 4, c0 + w_last_c + c < C ? 0 : 4);
                }
            }
            if (krs_ == BK / 4 / 2) {
                #pragma unroll
                for (int r_ = 0; r_ < BK / 4; r_ += 2) {
                    const int ij = ij0 + dy_ij;
                    const int i = ij / W;
                    const int j = ij % W;
                    const int krs = prefetch_k + k_offset + dy_krs + r_;
                    const int k = krs / 9;
                    const int r = krs / 3 % 3;
                    const int s = krs % 3;
                    const int i_in = i + 1 - r;
                    const int j_in = j + 1 - s;
                    // dy[((n * K + k) * H + i_in) * W + j_in]: 5 sectors, ideal 4; 4.5 on
                    // average (misaligned by 24 bytes)
                    // dy_tiles[write_stage][dy_krs + r_][dy_ij]: unknown: the source pattern differs between its warps
                    __pipeline_memcpy_async(&dy_tiles[write_stage][dy_krs + r_][dy_ij],
                        &dy[((n * K + k) * H + i_in) * W + j_in], 4,
                        i_in >= 0 && i_in < H && j_in >= 0 && j_in < W ? 0 : 4);
                }
                __pipeline_commit();
            }
            w_last_frag[krs_ % 2] = load<4>(&w_last_shared[read_stage][krs_][0]);
            dy_frag[krs_ % 2] = load<4>(&dy_shared[read_stage][krs_][0]);
            #pragma unroll
            for (int i_ = 0; i_ < TM; ++i_) {
                #pragma unroll
                for (int t = 0; t < TN; ++t) {
                    // serpentine: every other row backwards
                    const int j_ = i_ % 2 == 0 ? t : TN - t - 1;
                    acc[i_][j_] += dy_frag[(krs_ + 1) % 2].data[j_] * w_last_frag[(krs_ + 1) % 2].data[i_];
                }
            }
        }
        __pipeline_wait_prior(STAGES - 2);
        __barrier_sync_count(k_slice + 1, 64);
        // fragments of the next k-tile; unused after the last
        const int next_stage = (krs0 / BK + 1) % STAGES;
        w_last_frag[0] = load<4>(&w_last_shared[next_stage][0][0]);
        dy_frag[0] = load<4>(&dy_shared[next_stage][0][0]);
        #pragma unroll
        for (int i_ = 0; i_ < TM; ++i_) {
            #pragma unroll
            for (int t = 0; t < TN; ++t) {
                // serpentine: every other row backwards
                const int j_ = i_ % 2 == 0 ? t : TN - t - 1;
                acc[i_][j_] += dy_frag[1].data[j_] * w_last_frag[1].data[i_];
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
        for (int w_ = 0; w_ < 4; ++w_) {
            acc_vector.data[w_] = opaque_one * acc[i_][w_];
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
    for (int w_ = 0; w_ < 4; ++w_) {
        slice_total.data[w_] = slice_sums[0].data[w_] + slice_sums[1].data[w_] + slice_sums[2].data[w_]
            + slice_sums[3].data[w_];
    }
    store<4>(&partials[0][thread / (BN / 4)][4 * (thread % (BN / 4))], slice_total);
    cluster.sync();
    // each block reduces a part of the tile, in block order
    const int vector_id = 64 * rank + thread;
    if (thread < 64) {
        const int c_ = c0 + vector_id / (BN / 4);
        const int ij_ = ij0 + 4 * (vector_id % (BN / 4));
        if (c_ < C) {
            Vector<float, 4> block_sums[4];
            #pragma unroll
            for (int p = 0; p < 4; ++p) {
                // cluster.map_shared_rank(partials, p)[0][vector_id / (BN / 4)][4 * (vector_id % (BN / 4))]: unknown:
                // distributed shared memory is not modelled
                block_sums[p] =
                    load<4>(&cluster.map_shared_rank(partials, p)[0][vector_id / (BN / 4)][4 * (vector_id % (BN / 4))]);
            }
            Vector<float, 4> dx4;
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                dx4.data[v] = block_sums[0].data[v] + block_sums[1].data[v] + block_sums[2].data[v]
                    + block_sums[3].data[v];
            }
            store<4>(&dx[(n * C + c_) * (H * W) + ij_], dx4);
        }
    }
    // no block exits while others read its shared memory
    cluster.sync();
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int N = 4;

extern "C" size_t conv_input_gradient_workspace_bytes(void)
{
    return 256 * ((36 * C * K + 255) / 256);
}

extern "C" cudaError_t conv_input_gradient_launch(
    const float* dy,
    const float* w,
    float* dx,
    void* workspace,
    cudaStream_t stream)
{
    cudaError_t status = cudaSuccess;
    const bool allocates = workspace == nullptr;
    if (allocates)
        status = cudaMallocAsync(&workspace, conv_input_gradient_workspace_bytes(), stream);
    if (status != cudaSuccess)
        return status;
    float* const w_last = static_cast<float*>(workspace);
    conv_input_gradient_w_last<<<dim3(1, (K + 27) / 28, C), dim3(9, 28), 0, stream>>>(w, w_last);
    conv_input_gradient_dx<<<dim3(4 * ((H * W + 31) / 32), (C + 31) / 32, N), dim3(256), 26112,
        stream>>>(dy, dx, w_last);
    if (allocates)
        cudaFreeAsync(workspace, stream);
    return cudaGetLastError();
}

#endif
