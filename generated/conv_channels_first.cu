// conv_channels_first: A strided convolution with channels first; an implicit GEMM, whose copies locate its windows
//
// computes  y[n, k, i, j] = relu(sum(w[k, c, r, s] * x[n, c, 2 * i + r - 1, 2 * j + s - 1], c, r, s) + bias[k])
// params    N = 4, C = 24, K = 64, H = 29, W = 31
// x         input, float32 [4, 24, 29, 31], outside: zero
// w         input, float32 [64, 24, 3, 3]
// bias      input, float32 [64]
// y         output, float32 [4, 64, 15, 16], aligned to 16 bytes
// launch    grid (8, 2, 4), block (256, 1, 1), 26112 bytes of dynamic shared memory; family gemm
// pipeline  proved for every number of k-tiles: 3 stages, commit groups and barriers order copies and reads
// bounds    21 of 21 accesses proved
// analysis  sm_90: 18 accesses, 14 ideal, 2 costly, 2 unknown
//           worst: x[((n * C + c) * H + i_in) * W + j_in], 10 sectors, ideal 4; 8.79 on average
//           (128 bytes in 32 runs)
//
// Made by cugen 0.1.0 from conv_channels_first.yaml (hash a37a8ec3d646d38a) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   ws[stage][w_crs][w_k + c_]                                1 wavefront, ideal 1 (conflict-free)
//   w_global[c_ * (9 * C) + BK * stage]                       4 sectors, ideal 4 (128 bytes in 4 runs)
//   w_shared[0][0][0]                                         2 wavefronts, ideal 2 (conflict-free)
//   x_shared[0][0][0]                                         2 wavefronts, ideal 2 (conflict-free)
//   ws[write_stage][w_crs][w_k + c_]                          1 wavefront, ideal 1 (conflict-free)
//   w_global[c_ * (9 * C) + prefetch_k]                       4 sectors, ideal 4 (128 bytes in 4 runs)
//   w_shared[read_stage][crs_][0]                             2 wavefronts, ideal 2 (conflict-free)
//   x_shared[read_stage][crs_][0]                             2 wavefronts, ideal 2 (conflict-free)
//   w_shared[next_stage][0][0]                                2 wavefronts, ideal 2 (conflict-free)
//   x_shared[next_stage][0][0]                                2 wavefronts, ideal 2 (conflict-free)
//   partials[k_slice][thread_m + i_][thread_n]                4 wavefronts, ideal 4 (128 words over 32 banks)
//   partials[s_][thread / (BN / 4)][4 * (thread % (BN / 4))]  4 wavefronts, ideal 4 (128 words over 32 banks)
//   bias[k]                                                   1 sector, ideal 1 (16 contiguous bytes)
//   y[(n * K + k) * ((H + 1) / 2 * ((W + 1) / 2)) + ij_]      16 sectors, ideal 16 (512 bytes in 4 runs)

#include <cuda_pipeline_primitives.h>

constexpr int C = 24;
constexpr int K = 64;
constexpr int H = 29;
constexpr int W = 31;

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

extern "C" __global__ void __launch_bounds__(256) conv_channels_first(
    const float* __restrict__ x,
    const float* __restrict__ w,
    const float* __restrict__ bias,
    float* __restrict__ y)
{
    extern __shared__ __align__(16) unsigned char shared_memory[];

    constexpr int BM = 32, BN = 32, BK = 32, STAGES = 3, TM = 4, TN = 4, WM = 16;

    // circular buffer of 3 stages, [stage][crs][k or ij]
    float (*ws)[BK][BM + 4] = reinterpret_cast<float (*)[BK][BM + 4]>(shared_memory);
    float (*xs)[BK][BN] = reinterpret_cast<float (*)[BK][BN]>(ws + STAGES);
    float (*partials)[BM][BN + 4] = reinterpret_cast<float (*)[BM][BN + 4]>(shared_memory);

    const int n = blockIdx.z;
    // tiles at the edge are shifted inside and overlap others: they need no bounds checks
    const int k0 = blockIdx.y * BM;
    const int ij0 = min(blockIdx.x * BN, (H + 1) / 2 * ((W + 1) / 2) - BN);
    // the first k-tile begins at crs = -k_residue, so that all others are full
    constexpr int k_residue = 8;
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    // sliced-K: each warp group multiplies 8 of the 32 crs of a tile, with copies and barriers of its own
    const int k_slice = thread / 64;
    const int thread_in_slice = thread % 64;
    const int warp = thread_in_slice / 32;
    // warp tile 16 x 32, lanes 4 x 8 interleaved so that lane pairs broadcast
    const int lane_m = 2 * (lane / 16) + lane % 2;
    const int lane_n = lane / 2 % 8;
    const int thread_m = WM * warp + 4 * lane_m;
    const int thread_n = 4 * lane_n;
    const int w_crs = BK / 4 * k_slice + thread_in_slice % 8;
    const int w_k = thread_in_slice / 8;
    // implicit GEMM: copies of x compute i, j from ij and c, r, s from crs
    const int x_crs = BK / 4 * k_slice + thread_in_slice / 32;
    const int x_ij = thread_in_slice % 32;

    float acc[TM][TN] = {};

    const float* w_global = &w[(k0 + w_k) * (9 * C) + w_crs - k_residue];
    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        #pragma unroll
        for (int c_ = 0; c_ < BM; c_ += 8) {
            __pipeline_memcpy_async(&ws[stage][w_crs][w_k + c_], &w_global[c_ * (9 * C) + BK * stage], 4,
                w_crs + BK * stage - k_residue >= 0 ? 0 : 4);
        }
        #pragma unroll
        for (int r_ = 0; r_ < BK / 4; r_ += 2) {
            const int ij = ij0 + x_ij;
            const int i = ij / ((W + 1) / 2);
            const int j = ij % ((W + 1) / 2);
            const int crs = max(x_crs + BK * stage + r_ - k_residue, 0);
            const int c = crs / 9;
            const int r = crs / 3 % 3;
            const int s = crs % 3;
            const int i_in = 2 * i + r - 1;
            const int j_in = 2 * j + s - 1;
            // x[((n * C + c) * H + i_in) * W + j_in]: 10 sectors, ideal 4; 8.79 on average (128 bytes in 32 runs)
            // xs[stage][x_crs + r_][x_ij]: unknown: the source pattern differs between its warps
            __pipeline_memcpy_async(&xs[stage][x_crs + r_][x_ij], &x[((n * C + c) * H + i_in) * W + j_in], 4,
                x_crs + BK * stage + r_ - k_residue >= 0 && i_in >= 0 && i_in < H && j_in >= 0 && j_in < W ? 0 : 4);
        }
        __pipeline_commit();
    }

    __pipeline_wait_prior(STAGES - 2);
    __barrier_sync_count(k_slice + 1, 64);
    // register fragments of A and B for one k, double-buffered
    Vector<float, 4> w_frag[2];
    Vector<float, 4> x_frag[2];
    const float (*w_shared)[BK][BM + 4] =
        reinterpret_cast<const float (*)[BK][BM + 4]>(&ws[0][BK / 4 * k_slice][thread_m]);
    const float (*x_shared)[BK][BN] = reinterpret_cast<const float (*)[BK][BN]>(&xs[0][BK / 4 * k_slice][thread_n]);
    w_frag[0] = load<4>(&w_shared[0][0][0]);
    x_frag[0] = load<4>(&x_shared[0][0][0]);
    for (int crs0 = 0, read_stage = 0; crs0 < 9 * C + k_residue;
        crs0 += BK, read_stage = read_stage < STAGES - 1 ? read_stage + 1 : 0) {
        const int write_stage = read_stage > 0 ? read_stage - 1 : STAGES - 1;
        // past the last k-tile: copy it again, so that the loop has no branch
        const int prefetch_k = min(crs0 + BK * (STAGES - 1), 9 * C + k_residue - BK);
        #pragma unroll
        for (int crs_ = 1; crs_ < BK / 4; ++crs_) {
            if (crs_ == BK / 4 / 4) {
                #pragma unroll
                for (int c_ = 0; c_ < BM; c_ += 8) {
                    __pipeline_memcpy_async(&ws[write_stage][w_crs][w_k + c_], &w_global[c_ * (9 * C) + prefetch_k], 4);
                }
            }
            if (crs_ == BK / 4 / 2) {
                #pragma unroll
                for (int r_ = 0; r_ < BK / 4; r_ += 2) {
                    const int ij = ij0 + x_ij;
                    const int i = ij / ((W + 1) / 2);
                    const int j = ij % ((W + 1) / 2);
                    const int crs = prefetch_k + x_crs + r_ - k_residue;
                    const int c = crs / 9;
                    const int r = crs / 3 % 3;
                    const int s = crs % 3;
                    const int i_in = 2 * i + r - 1;
                    const int j_in = 2 * j + s - 1;
                    // x[((n * C + c) * H + i_in) * W + j_in]: 10 sectors, ideal 4; 8.79 on
                    // average (128 bytes in 32 runs)
                    // xs[write_stage][x_crs + r_][x_ij]: unknown: the source pattern differs between its warps
                    __pipeline_memcpy_async(&xs[write_stage][x_crs + r_][x_ij], &x[((n * C + c) * H + i_in) * W + j_in],
                        4, i_in >= 0 && i_in < H && j_in >= 0 && j_in < W ? 0 : 4);
                }
                __pipeline_commit();
            }
            w_frag[crs_ % 2] = load<4>(&w_shared[read_stage][crs_][0]);
            x_frag[crs_ % 2] = load<4>(&x_shared[read_stage][crs_][0]);
            #pragma unroll
            for (int i_ = 0; i_ < TM; ++i_) {
                #pragma unroll
                for (int t = 0; t < TN; ++t) {
                    // serpentine: every other row backwards
                    const int j_ = i_ % 2 == 0 ? t : TN - t - 1;
                    acc[i_][j_] += w_frag[(crs_ + 1) % 2].data[i_] * x_frag[(crs_ + 1) % 2].data[j_];
                }
            }
        }
        __pipeline_wait_prior(STAGES - 2);
        __barrier_sync_count(k_slice + 1, 64);
        // fragments of the next k-tile; unused after the last
        const int next_stage = read_stage < STAGES - 1 ? read_stage + 1 : 0;
        w_frag[0] = load<4>(&w_shared[next_stage][0][0]);
        x_frag[0] = load<4>(&x_shared[next_stage][0][0]);
        #pragma unroll
        for (int i_ = 0; i_ < TM; ++i_) {
            #pragma unroll
            for (int t = 0; t < TN; ++t) {
                // serpentine: every other row backwards
                const int j_ = i_ % 2 == 0 ? t : TN - t - 1;
                acc[i_][j_] += w_frag[1].data[i_] * x_frag[1].data[j_];
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
    const int k = k0 + thread / (BN / 4);
    const int ij_ = ij0 + 4 * (thread % (BN / 4));
    Vector<float, 4> slice_sums[4];
    #pragma unroll
    for (int s_ = 0; s_ < 4; ++s_) {
        slice_sums[s_] = load<4>(&partials[s_][thread / (BN / 4)][4 * (thread % (BN / 4))]);
    }
    const float bias_k = bias[k];
    Vector<float, 4> y4;
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        y4.data[v] = maximum(slice_sums[0].data[v] + slice_sums[1].data[v] + slice_sums[2].data[v]
            + slice_sums[3].data[v] + bias_k, 0.0f);
    }
    store<4>(&y[(n * K + k) * ((H + 1) / 2 * ((W + 1) / 2)) + ij_], y4);
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int N = 4;

extern "C" cudaError_t conv_channels_first_launch(
    const float* x,
    const float* w,
    const float* bias,
    float* y,
    cudaStream_t stream)
{
    conv_channels_first<<<dim3(((H + 1) / 2 * ((W + 1) / 2) + 31) / 32, (K + 31) / 32, N), dim3(256), 26112,
        stream>>>(x, w, bias, y);
    return cudaGetLastError();
}

#endif
