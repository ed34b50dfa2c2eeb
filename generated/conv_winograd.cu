// conv_winograd: A convolution of 3 x 3 taps by Winograd's algorithm, which `accumulate` allows; 16
// multiply-adds for 4 outputs in place of 36
//
// computes                 y[n, k, i, j] = relu(sum(w[k, c, r, s] * x[n, c, i + r - 1, j + s - 1], c, r, s) +
//                          bias[k])
// params                   N = 3, C = 128, K = 192, H = 18, W = 20
// x                        input, float32 [3, 128, 18, 20], outside: zero, aligned to 16 bytes
// w                        input, float32 [192, 128, 3, 3]
// bias                     input, float32 [192]
// y                        output, float32 [3, 192, 18, 20], aligned to 16 bytes
// conv_winograd_y_filter   grid (3, 32, 1), block (64, 4, 1); family map
// conv_winograd_y_tile     grid (1, 1, 384), block (8, 16, 1); family stencil
// conv_winograd_y_product  grid (5, 3, 16), block (128, 1, 1), 34816 bytes of dynamic shared memory; family gemm
// conv_winograd_y          grid (1, 1, 192), block (5, 16, 3); family map
// accumulate               y by Winograd's F(2 x 2, 3 x 3), whose sums are rounded otherwise, as `winograd: true`
//                          allows
// pipeline                 conv_winograd_y_product: proved for every number of k-tiles: 3 stages, commit groups
//                          and barriers order copies and reads
// bounds                   88 of 88 accesses proved
// analysis                 sm_90: 50 accesses, 31 ideal, 19 costly
//                          worst: w[(k * C + c) * 9], 32 sectors, ideal 4 (lanes 4608 bytes apart)
//
// Made by cugen 0.1.0 from conv_winograd.yaml (hash 94c716f2edf4b4ae) for sm_90. Edit the spec, not this file.
//
// Ideal accesses of conv_winograd_y_filter, without a remark in the code:
//   y_filter[c * K + k]             4 sectors, ideal 4 (128 contiguous bytes)
//   y_filter[(C + c) * K + k]       4 sectors, ideal 4 (128 contiguous bytes)
//   y_filter[(2 * C + c) * K + k]   4 sectors, ideal 4 (128 contiguous bytes)
//   y_filter[(3 * C + c) * K + k]   4 sectors, ideal 4 (128 contiguous bytes)
//   y_filter[(4 * C + c) * K + k]   4 sectors, ideal 4 (128 contiguous bytes)
//   y_filter[(5 * C + c) * K + k]   4 sectors, ideal 4 (128 contiguous bytes)
//   y_filter[(6 * C + c) * K + k]   4 sectors, ideal 4 (128 contiguous bytes)
//   y_filter[(7 * C + c) * K + k]   4 sectors, ideal 4 (128 contiguous bytes)
//   y_filter[(8 * C + c) * K + k]   4 sectors, ideal 4 (128 contiguous bytes)
//   y_filter[(9 * C + c) * K + k]   4 sectors, ideal 4 (128 contiguous bytes)
//   y_filter[(10 * C + c) * K + k]  4 sectors, ideal 4 (128 contiguous bytes)
//   y_filter[(11 * C + c) * K + k]  4 sectors, ideal 4 (128 contiguous bytes)
//   y_filter[(12 * C + c) * K + k]  4 sectors, ideal 4 (128 contiguous bytes)
//   y_filter[(13 * C + c) * K + k]  4 sectors, ideal 4 (128 contiguous bytes)
//   y_filter[(14 * C + c) * K + k]  4 sectors, ideal 4 (128 contiguous bytes)
//   y_filter[(15 * C + c) * K + k]  4 sectors, ideal 4 (128 contiguous bytes)
//
// Ideal accesses of conv_winograd_y_product, without a remark in the code:
//   y_filters[stage][y_filter_c + r][y_filter_k]                4 wavefronts, ideal 4 (128 words over 32 banks)
//   y_filter_global[(BK * stage + r) * K]                       16 sectors, ideal 16 (512 bytes in 2 runs)
//   y_tiles[stage][y_tile_c + r][y_tile_n_i_tile_j_tile]        2 wavefronts, ideal 2 (64 words over 32 banks)
//   y_filter_shared[0][0][16 * u]                               2 wavefronts, ideal 2 (conflict-free)
//   y_tile_shared[0][0][32 * u]                                 2 wavefronts, ideal 2 (conflict-free)
//   y_filters[write_stage][y_filter_c + r][y_filter_k]          4 wavefronts, ideal 4 (128 words over 32 banks)
//   y_filter_global[(prefetch_k + r) * K]                       16 sectors, ideal 16 (512 bytes in 2 runs)
//   y_tiles[write_stage][y_tile_c + r][y_tile_n_i_tile_j_tile]  2 wavefronts, ideal 2 (64 words over 32 banks)
//   y_filter_shared[read_stage][c][16 * u]                      2 wavefronts, ideal 2 (conflict-free)
//   y_tile_shared[read_stage][c][32 * u]                        2 wavefronts, ideal 2 (conflict-free)
//   y_filter_shared[next_stage][0][16 * u]                      2 wavefronts, ideal 2 (conflict-free)
//   y_tile_shared[next_stage][0][32 * u]                        2 wavefronts, ideal 2 (conflict-free)
//   partials[k_slice][thread_m + 16 * (i / 4) + i % 4][thread_n + 32 * g]
//       4 wavefronts, ideal 4 (128 words over 32 banks)
//   partials[s][tile_m][tile_n]                                 2 wavefronts, ideal 2 (64 words over 32 banks)
//
// Ideal accesses of conv_winograd_y, without a remark in the code:
//   bias[k]  1 sector, ideal 1 (uniform address)

#include <cuda_pipeline_primitives.h>

constexpr int N = 3;
constexpr int C = 128;
constexpr int K = 192;
constexpr int H = 18;
constexpr int W = 20;

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

extern "C" __global__ void __launch_bounds__(256) conv_winograd_y_filter(
    const float* __restrict__ w,
    float* __restrict__ y_filter)
{
    const int c = blockIdx.y * 4 + threadIdx.y;
    const int k = blockIdx.x * 64 + threadIdx.x;

    // w[(k * C + c) * 9]: 32 sectors, ideal 4 (lanes 4608 bytes apart)
    const float w_k_c_0_0 = w[(k * C + c) * 9];
    // w[((k * C + c) * 3 + 1) * 3]: 32 sectors, ideal 4 (lanes 4608 bytes apart)
    const float w_k_c_1_0 = w[((k * C + c) * 3 + 1) * 3];
    // w[((k * C + c) * 3 + 2) * 3]: 32 sectors, ideal 4 (lanes 4608 bytes apart)
    const float w_k_c_2_0 = w[((k * C + c) * 3 + 2) * 3];
    const float gg10 = 0.5f * (w_k_c_0_0 + w_k_c_1_0 + w_k_c_2_0);
    // w[(k * C + c) * 9 + 1]: 32 sectors, ideal 4 (lanes 4608 bytes apart)
    const float w_k_c_0_1 = w[(k * C + c) * 9 + 1];
    // w[((k * C + c) * 3 + 1) * 3 + 1]: 32 sectors, ideal 4 (lanes 4608 bytes apart)
    const float w_k_c_1_1 = w[((k * C + c) * 3 + 1) * 3 + 1];
    // w[((k * C + c) * 3 + 2) * 3 + 1]: 32 sectors, ideal 4 (lanes 4608 bytes apart)
    const float w_k_c_2_1 = w[((k * C + c) * 3 + 2) * 3 + 1];
    const float gg11 = 0.5f * (w_k_c_0_1 + w_k_c_1_1 + w_k_c_2_1);
    // w[(k * C + c) * 9 + 2]: 32 sectors, ideal 4 (lanes 4608 bytes apart)
    const float w_k_c_0_2 = w[(k * C + c) * 9 + 2];
    // w[((k * C + c) * 3 + 1) * 3 + 2]: 32 sectors, ideal 4 (lanes 4608 bytes apart)
    const float w_k_c_1_2 = w[((k * C + c) * 3 + 1) * 3 + 2];
    // w[((k * C + c) * 3 + 2) * 3 + 2]: 32 sectors, ideal 4 (lanes 4608 bytes apart)
    const float w_k_c_2_2 = w[((k * C + c) * 3 + 2) * 3 + 2];
    const float gg12 = 0.5f * (w_k_c_0_2 + w_k_c_1_2 + w_k_c_2_2);
    const float gg20 = 0.5f * (w_k_c_0_0 + w_k_c_2_0 - w_k_c_1_0);
    const float gg21 = 0.5f * (w_k_c_0_1 + w_k_c_2_1 - w_k_c_1_1);
    const float gg22 = 0.5f * (w_k_c_0_2 + w_k_c_2_2 - w_k_c_1_2);
    y_filter[c * K + k] = w_k_c_0_0;
    y_filter[(C + c) * K + k] = 0.5f * (w_k_c_0_0 + w_k_c_0_1 + w_k_c_0_2);
    y_filter[(2 * C + c) * K + k] = 0.5f * (w_k_c_0_0 + w_k_c_0_2 - w_k_c_0_1);
    y_filter[(3 * C + c) * K + k] = w_k_c_0_2;
    y_filter[(4 * C + c) * K + k] = gg10;
    y_filter[(5 * C + c) * K + k] = 0.5f * (gg10 + gg11 + gg12);
    y_filter[(6 * C + c) * K + k] = 0.5f * (gg10 + gg12 - gg11);
    y_filter[(7 * C + c) * K + k] = gg12;
    y_filter[(8 * C + c) * K + k] = gg20;
    y_filter[(9 * C + c) * K + k] = 0.5f * (gg20 + gg21 + gg22);
    y_filter[(10 * C + c) * K + k] = 0.5f * (gg20 + gg22 - gg21);
    y_filter[(11 * C + c) * K + k] = gg22;
    y_filter[(12 * C + c) * K + k] = w_k_c_2_0;
    y_filter[(13 * C + c) * K + k] = 0.5f * (w_k_c_2_0 + w_k_c_2_1 + w_k_c_2_2);
    y_filter[(14 * C + c) * K + k] = 0.5f * (w_k_c_2_0 + w_k_c_2_2 - w_k_c_2_1);
    y_filter[(15 * C + c) * K + k] = w_k_c_2_2;
}

extern "C" __global__ void __launch_bounds__(128) conv_winograd_y_tile(
    const float* __restrict__ x,
    float* __restrict__ y_tile)
{
    const int c = blockIdx.z / N;
    const int n = blockIdx.z % N;
    const int i_tile = blockIdx.y * 16 + threadIdx.y;
    const int j_tile0 = blockIdx.x * 16 + threadIdx.x * 2;
    if (i_tile >= 9 || j_tile0 >= 10)
        return;

    // register windows: what the thread's outputs read
    float x_window[4][6];
    #pragma unroll
    for (int row = 0; row < 4; ++row) {
        const int h = 2 * i_tile + row - 1;
        Vector<float, 4> x4 = {};
        if (h >= 0 && h < H) {
            // x[((n * C + c) * H + h) * W + 2 * j_tile0]: 12 sectors, ideal 10; 9.27 on average (320 bytes in 4 runs)
            x4 = load<4>(&x[((n * C + c) * H + h) * W + 2 * j_tile0]);
        }
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            x_window[row][v + 1] = x4.data[v];
        }
        // x[((n * C + c) * H + h) * W + 2 * j_tile0 - 1]: 12 sectors, ideal 2; 7.73 on average (64 bytes in 16 runs)
        const float x_left = h >= 0 && h < H && 2 * j_tile0 - 1 >= 0
            ? x[((n * C + c) * H + h) * W + 2 * j_tile0 - 1] : 0.0f;
        x_window[row][0] = x_left;
        // x[((n * C + c) * H + h) * W + 2 * j_tile0 + 4]: 12 sectors, ideal 2; 7.73 on average (64 bytes in 16 runs)
        const float x_right = h >= 0 && h < H && 2 * j_tile0 + 4 < W
            ? x[((n * C + c) * H + h) * W + 2 * j_tile0 + 4] : 0.0f;
        x_window[row][5] = x_right;
    }

    Vector<float, 2> y_tile2[16];
    #pragma unroll
    for (int v = 0; v < 2; ++v) {
        const float bd00 = x_window[0][2 * v] - x_window[2][2 * v];
        const float bd01 = x_window[0][2 * v + 1] - x_window[2][2 * v + 1];
        const float bd02 = x_window[0][2 * v + 2] - x_window[2][2 * v + 2];
        const float bd03 = x_window[0][2 * v + 3] - x_window[2][2 * v + 3];
        const float bd10 = x_window[1][2 * v] + x_window[2][2 * v];
        const float bd11 = x_window[1][2 * v + 1] + x_window[2][2 * v + 1];
        const float bd12 = x_window[1][2 * v + 2] + x_window[2][2 * v + 2];
        const float bd13 = x_window[1][2 * v + 3] + x_window[2][2 * v + 3];
        const float bd20 = x_window[2][2 * v] - x_window[1][2 * v];
        const float bd21 = x_window[2][2 * v + 1] - x_window[1][2 * v + 1];
        const float bd22 = x_window[2][2 * v + 2] - x_window[1][2 * v + 2];
        const float bd23 = x_window[2][2 * v + 3] - x_window[1][2 * v + 3];
        const float bd30 = x_window[1][2 * v] - x_window[3][2 * v];
        const float bd31 = x_window[1][2 * v + 1] - x_window[3][2 * v + 1];
        const float bd32 = x_window[1][2 * v + 2] - x_window[3][2 * v + 2];
        const float bd33 = x_window[1][2 * v + 3] - x_window[3][2 * v + 3];
        y_tile2[0].data[v] = bd00 - bd02;
        y_tile2[1].data[v] = bd01 + bd02;
        y_tile2[2].data[v] = bd02 - bd01;
        y_tile2[3].data[v] = bd01 - bd03;
        y_tile2[4].data[v] = bd10 - bd12;
        y_tile2[5].data[v] = bd11 + bd12;
        y_tile2[6].data[v] = bd12 - bd11;
        y_tile2[7].data[v] = bd11 - bd13;
        y_tile2[8].data[v] = bd20 - bd22;
        y_tile2[9].data[v] = bd21 + bd22;
        y_tile2[10].data[v] = bd22 - bd21;
        y_tile2[11].data[v] = bd21 - bd23;
        y_tile2[12].data[v] = bd30 - bd32;
        y_tile2[13].data[v] = bd31 + bd32;
        y_tile2[14].data[v] = bd32 - bd31;
        y_tile2[15].data[v] = bd31 - bd33;
    }
    #pragma unroll
    for (int number = 0; number < 16; ++number) {
        // y_tile[(((number * C + c) * N + n) * 9 + i_tile) * 10 + j_tile0]: 6 sectors, ideal 5; 4.5 on
        // average (misaligned by 8 bytes)
        store<2>(&y_tile[(((number * C + c) * N + n) * 9 + i_tile) * 10 + j_tile0], y_tile2[number]);
    }
}

extern "C" __global__ void __launch_bounds__(128) conv_winograd_y_product(
    const float* __restrict__ y_filter,
    const float* __restrict__ y_tile,
    float* __restrict__ y_product)
{
    extern __shared__ __align__(16) unsigned char shared_memory[];

    constexpr int BM = 64, BN = 64, BK = 16, STAGES = 3, TM = 8, TN = 8, WM = 32;

    // circular buffer of 3 stages, [stage][c][k or n_i_tile_j_tile]
    float (*y_filters)[BK][BM] = reinterpret_cast<float (*)[BK][BM]>(shared_memory);
    float (*y_tiles)[BK][BN] = reinterpret_cast<float (*)[BK][BN]>(y_filters + STAGES);
    float (*partials)[BM][BN + 4] = reinterpret_cast<float (*)[BM][BN + 4]>(shared_memory);

    const int element = blockIdx.z;
    // tiles at the edge are shifted inside and overlap others: they need no bounds checks
    const int k0 = blockIdx.y * BM;
    const int n_i_tile_j_tile0 = min(blockIdx.x * BN, 90 * N - BN);
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    // sliced-K: each warp group multiplies 8 of the 16 c of a tile, with copies and barriers of its own
    const int k_slice = thread / 64;
    const int thread_in_slice = thread % 64;
    const int warp = thread_in_slice / 32;
    // warp tile 32 x 64, lanes 4 x 8 interleaved so that lane pairs broadcast
    const int lane_m = 2 * (lane / 16) + lane % 2;
    const int lane_n = lane / 2 % 8;
    const int thread_m = WM * warp + 4 * lane_m;
    const int thread_n = 4 * lane_n;
    const int y_filter_c = BK / 2 * k_slice + thread_in_slice / 16;
    const int y_filter_k = 4 * (thread_in_slice % 16);
    const int y_tile_c = BK / 2 * k_slice + thread_in_slice / 32;
    const int y_tile_n_i_tile_j_tile = 2 * (thread_in_slice % 32);

    float acc[TM][TN] = {};

    const float* y_filter_global = &y_filter[(element * C + y_filter_c) * K + k0 + y_filter_k];
    const float* y_tile_global =
        &y_tile[(element * C + y_tile_c) * (90 * N) + n_i_tile_j_tile0 + y_tile_n_i_tile_j_tile];
    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        #pragma unroll
        for (int r = 0; r < BK / 2; r += 4) {
            __pipeline_memcpy_async(&y_filters[stage][y_filter_c + r][y_filter_k],
                &y_filter_global[(BK * stage + r) * K], 16);
        }
        #pragma unroll
        for (int r = 0; r < BK / 2; r += 2) {
            // y_tile_global[(BK * stage + r) * (90 * N)]: 9 sectors, ideal 8; 8.75 on average (misaligned by 16 bytes)
            __pipeline_memcpy_async(&y_tiles[stage][y_tile_c + r][y_tile_n_i_tile_j_tile],
                &y_tile_global[(BK * stage + r) * (90 * N)], 8);
        }
        __pipeline_commit();
    }

    __pipeline_wait_prior(STAGES - 2);
    __barrier_sync_count(k_slice + 1, 64);
    // register fragments of A and B for one k, double-buffered
    Vector<float, 4> y_filter_frag[2][TM / 4];
    Vector<float, 4> y_tile_frag[2][TN / 4];
    const float (*y_filter_shared)[BK][BM] =
        reinterpret_cast<const float (*)[BK][BM]>(&y_filters[0][BK / 2 * k_slice][thread_m]);
    const float (*y_tile_shared)[BK][BN] =
        reinterpret_cast<const float (*)[BK][BN]>(&y_tiles[0][BK / 2 * k_slice][thread_n]);
    #pragma unroll
    for (int u = 0; u < TM / 4; ++u) {
        y_filter_frag[0][u] = load<4>(&y_filter_shared[0][0][16 * u]);
    }
    #pragma unroll
    for (int u = 0; u < TN / 4; ++u) {
        y_tile_frag[0][u] = load<4>(&y_tile_shared[0][0][32 * u]);
    }
    for (int c0 = 0, read_stage = 0; c0 < C; c0 += BK, read_stage = read_stage < STAGES - 1 ? read_stage + 1 : 0) {
        const int write_stage = read_stage > 0 ? read_stage - 1 : STAGES - 1;
        // past the last k-tile: copy it again, so that the loop has no branch
        const int prefetch_k = min(c0 + BK * (STAGES - 1), C - BK);
        #pragma unroll
        for (int c = 1; c < BK / 2; ++c) {
            if (c == BK / 2 / 4) {
                #pragma unroll
                for (int r = 0; r < BK / 2; r += 4) {
                    __pipeline_memcpy_async(&y_filters[write_stage][y_filter_c + r][y_filter_k],
                        &y_filter_global[(prefetch_k + r) * K], 16);
                }
            }
            if (c == BK / 2 / 2) {
                #pragma unroll
                for (int r = 0; r < BK / 2; r += 2) {
                    // y_tile_global[(prefetch_k + r) * (90 * N)]: 9 sectors, ideal 8; 8.75 on
                    // average (misaligned by 16 bytes)
                    __pipeline_memcpy_async(&y_tiles[write_stage][y_tile_c + r][y_tile_n_i_tile_j_tile],
                        &y_tile_global[(prefetch_k + r) * (90 * N)], 8);
                }
                __pipeline_commit();
            }
            #pragma unroll
            for (int u = 0; u < TM / 4; ++u) {
                y_filter_frag[c % 2][u] = load<4>(&y_filter_shared[read_stage][c][16 * u]);
            }
            #pragma unroll
            for (int u = 0; u < TN / 4; ++u) {
                y_tile_frag[c % 2][u] = load<4>(&y_tile_shared[read_stage][c][32 * u]);
            }
            #pragma unroll
            for (int i = 0; i < TM; ++i) {
                #pragma unroll
                for (int t = 0; t < TN; ++t) {
                    // serpentine: every other row backwards
                    const int j = i % 2 == 0 ? t : TN - t - 1;
                    acc[i][j] += y_filter_frag[(c + 1) % 2][i / 4].data[i % 4]
                        * y_tile_frag[(c + 1) % 2][j / 4].data[j % 4];
                }
            }
        }
        __pipeline_wait_prior(STAGES - 2);
        __barrier_sync_count(k_slice + 1, 64);
        // fragments of the next k-tile; unused after the last
        const int next_stage = read_stage < STAGES - 1 ? read_stage + 1 : 0;
        #pragma unroll
        for (int u = 0; u < TM / 4; ++u) {
            y_filter_frag[0][u] = load<4>(&y_filter_shared[next_stage][0][16 * u]);
        }
        #pragma unroll
        for (int u = 0; u < TN / 4; ++u) {
            y_tile_frag[0][u] = load<4>(&y_tile_shared[next_stage][0][32 * u]);
        }
        #pragma unroll
        for (int i = 0; i < TM; ++i) {
            #pragma unroll
            for (int t = 0; t < TN; ++t) {
                // serpentine: every other row backwards
                const int j = i % 2 == 0 ? t : TN - t - 1;
                acc[i][j] += y_filter_frag[1][i / 4].data[i % 4] * y_tile_frag[1][j / 4].data[j % 4];
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
    for (int i = 0; i < TM; ++i) {
        #pragma unroll
        for (int g = 0; g < TN / 4; ++g) {
            Vector<float, 4> acc_vector;
            #pragma unroll
            for (int w_ = 0; w_ < 4; ++w_) {
                acc_vector.data[w_] = opaque_one * acc[i][4 * g + w_];
            }
            store<4>(&partials[k_slice][thread_m + 16 * (i / 4) + i % 4][thread_n + 32 * g], acc_vector);
        }
    }
    __syncthreads();
    #pragma unroll 4
    for (int e = 0; e < BM * (BN / 2); e += 128) {
        const int tile_m = (thread + e) / (BN / 2);
        const int tile_n = 2 * ((thread + e) % (BN / 2));
        const int k = k0 + tile_m;
        const int n_i_tile_j_tile = n_i_tile_j_tile0 + tile_n;
        Vector<float, 2> slice_sums[2];
        #pragma unroll
        for (int s = 0; s < 2; ++s) {
            slice_sums[s] = load<2>(&partials[s][tile_m][tile_n]);
        }
        Vector<float, 2> y_product2;
        #pragma unroll
        for (int v = 0; v < 2; ++v) {
            y_product2.data[v] = slice_sums[0].data[v] + slice_sums[1].data[v];
        }
        // y_product[(element * K + k) * (90 * N) + n_i_tile_j_tile]: 9 sectors, ideal 8; 8.75 on
        // average (misaligned by 24 bytes)
        store<2>(&y_product[(element * K + k) * (90 * N) + n_i_tile_j_tile], y_product2);
    }
}

extern "C" __global__ void __launch_bounds__(240) conv_winograd_y(
    const float* __restrict__ bias,
    float* __restrict__ y,
    const float* __restrict__ y_product)
{
    const int n = blockIdx.z / ((K + 2) / 3);
    const int k = blockIdx.z % ((K + 2) / 3) * 3 + threadIdx.z;
    const int i_tile = blockIdx.y * 16 + threadIdx.y;
    const int j_tile = blockIdx.x * 10 + threadIdx.x * 2;
    if (i_tile >= 9)
        return;

    Vector<float, 2> y_product2[16];
    #pragma unroll
    for (int number = 0; number < 16; ++number) {
        // y_product[(((number * K + k) * N + n) * 9 + i_tile) * 10 + j_tile]: 9 sectors, ideal 8; 6.38 on
        // average (misaligned by 8 bytes)
        y_product2[number] = load<2>(&y_product[(((number * K + k) * N + n) * 9 + i_tile) * 10 + j_tile]);
    }
    const float bias_k = bias[k];
    Vector<float, 4> y4;
    Vector<float, 4> y4_;
    #pragma unroll
    for (int v = 0; v < 2; ++v) {
        const float am00 = y_product2[0].data[v] + y_product2[4].data[v] + y_product2[8].data[v];
        const float am01 = y_product2[1].data[v] + y_product2[5].data[v] + y_product2[9].data[v];
        const float am02 = y_product2[2].data[v] + y_product2[6].data[v] + y_product2[10].data[v];
        const float am03 = y_product2[3].data[v] + y_product2[7].data[v] + y_product2[11].data[v];
        const float am10 = y_product2[4].data[v] - y_product2[8].data[v] - y_product2[12].data[v];
        const float am11 = y_product2[5].data[v] - y_product2[9].data[v] - y_product2[13].data[v];
        const float am12 = y_product2[6].data[v] - y_product2[10].data[v] - y_product2[14].data[v];
        const float am13 = y_product2[7].data[v] - y_product2[11].data[v] - y_product2[15].data[v];
        y4.data[2 * v] = maximum(am00 + am01 + am02 + bias_k, 0.0f);
        y4.data[2 * v + 1] = maximum(am01 - am02 - am03 + bias_k, 0.0f);
        y4_.data[2 * v] = maximum(am10 + am11 + am12 + bias_k, 0.0f);
        y4_.data[2 * v + 1] = maximum(am11 - am12 - am13 + bias_k, 0.0f);
    }
    // y[((n * K + k) * H + 2 * i_tile) * W + 2 * j_tile]: 19 sectors, ideal 16; 13.67 on average (512 bytes in 7 runs)
    store<4>(&y[((n * K + k) * H + 2 * i_tile) * W + 2 * j_tile], y4);
    // y[((n * K + k) * H + 2 * i_tile + 1) * W + 2 * j_tile]: 20 sectors, ideal 16; 13.83
    // on average (512 bytes in 7 runs)
    store<4>(&y[((n * K + k) * H + 2 * i_tile + 1) * W + 2 * j_tile], y4_);
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" size_t conv_winograd_workspace_bytes(void)
{
    return 256 * ((5760 * C * N + 255) / 256) + 256 * ((5760 * K * N + 255) / 256) + 256 * ((64 * C * K + 255) / 256);
}

extern "C" cudaError_t conv_winograd_launch(
    const float* x,
    const float* w,
    const float* bias,
    float* y,
    void* workspace,
    cudaStream_t stream)
{
    cudaError_t status = cudaSuccess;
    const bool allocates = workspace == nullptr;
    if (allocates)
        status = cudaMallocAsync(&workspace, conv_winograd_workspace_bytes(), stream);
    if (status != cudaSuccess)
        return status;
    float* const y_filter = static_cast<float*>(workspace);
    float* const y_tile = reinterpret_cast<float*>(static_cast<char*>(workspace) + 256 * ((64 * C * K + 255) / 256));
    float* const y_product = reinterpret_cast<float*>(static_cast<char*>(workspace) + 256 * ((5760 * C * N + 255) / 256)
        + 256 * ((64 * C * K + 255) / 256));
    conv_winograd_y_filter<<<dim3((K + 63) / 64, (C + 3) / 4), dim3(64, 4), 0, stream>>>(w, y_filter);
    conv_winograd_y_tile<<<dim3(1, 1, C * N), dim3(8, 16), 0, stream>>>(x, y_tile);
    conv_winograd_y_product<<<dim3((90 * N + 63) / 64, (K + 63) / 64, 16), dim3(128), 34816,
        stream>>>(y_filter, y_tile, y_product);
    conv_winograd_y<<<dim3(1, 1, N * ((K + 2) / 3)), dim3(5, 16, 3), 0, stream>>>(bias, y, y_product);
    if (allocates)
        cudaFreeAsync(workspace, stream);
    return cudaGetLastError();
}

#endif
