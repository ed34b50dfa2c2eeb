// conv_winograd_gradient: The gradient of a convolution by its input, channels last, by Winograd's algorithm; odd
// extents, whose last tiles are guarded
//
// computes                           dx[n, i, j, c] = sum(dy[n, i - r + 1, j - s + 1, k] * w[r, s, c, k], k, r, s)
// params                             N = 6, C = 128, K = 128, H = 19, W = 19
// dy                                 input, float32 [6, 19, 19, 128], outside: zero, aligned to 16 bytes
// w                                  input, float32 [3, 3, 128, 128], aligned to 16 bytes
// dx                                 output, float32 [6, 19, 19, 128]
// conv_winograd_gradient_dx_filter   grid (4, 4, 1), block (8, 32, 1), 38016 bytes of shared memory; family
//                                    transpose
// conv_winograd_gradient_dx_tile     grid (1, 3, 60), block (32, 4, 1); family stencil
// conv_winograd_gradient_dx_product  grid (2, 19, 16), block (128, 1, 1), 38400 bytes of dynamic shared memory;
//                                    family gemm
// conv_winograd_gradient_dx          grid (1, 5, 60), block (128, 2, 1); family map
// accumulate                         dx by Winograd's F(2 x 2, 3 x 3), whose sums are rounded otherwise, as
//                                    `winograd: true` allows
// pipeline                           conv_winograd_gradient_dx_product: proved for at most 4 k-tiles: 3 stages,
//                                    commit groups and barriers order copies and reads
// bounds                             103 of 103 accesses proved
// analysis                           sm_90: 67 accesses, 65 ideal, 2 costly
//                                    worst: dx_tiles[stage][dx_tile_k + r][dx_tile_n_i_tile_j_tile + c], 4
//                                    wavefronts, ideal 1 (lanes 0 and 8 copy from one bank)
//
// Made by cugen 0.1.0 from conv_winograd_gradient.yaml (hash e1e4ced930bcc8c4) for sm_90. Edit the spec, not this file.
//
// Ideal accesses of conv_winograd_gradient_dx_filter, without a remark in the code:
//   w[(8 * C + c_in) * K + k_in]         16 sectors, ideal 16 (512 bytes in 4 runs)
//   w_tile_2_2[ty][4 * tx + v]           1 wavefront, ideal 1 (conflict-free)
//   w[(5 * C + c_in) * K + k_in]         16 sectors, ideal 16 (512 bytes in 4 runs)
//   w_tile_1_2[ty][4 * tx + v]           1 wavefront, ideal 1 (conflict-free)
//   w[(2 * C + c_in) * K + k_in]         16 sectors, ideal 16 (512 bytes in 4 runs)
//   w_tile_0_2[ty][4 * tx + v]           1 wavefront, ideal 1 (conflict-free)
//   w[(7 * C + c_in) * K + k_in]         16 sectors, ideal 16 (512 bytes in 4 runs)
//   w_tile_2_1[ty][4 * tx + v]           1 wavefront, ideal 1 (conflict-free)
//   w[(4 * C + c_in) * K + k_in]         16 sectors, ideal 16 (512 bytes in 4 runs)
//   w_tile_1_1[ty][4 * tx + v]           1 wavefront, ideal 1 (conflict-free)
//   w[(C + c_in) * K + k_in]             16 sectors, ideal 16 (512 bytes in 4 runs)
//   w_tile_0_1[ty][4 * tx + v]           1 wavefront, ideal 1 (conflict-free)
//   w[(6 * C + c_in) * K + k_in]         16 sectors, ideal 16 (512 bytes in 4 runs)
//   w_tile_2_0[ty][4 * tx + v]           1 wavefront, ideal 1 (conflict-free)
//   w[(3 * C + c_in) * K + k_in]         16 sectors, ideal 16 (512 bytes in 4 runs)
//   w_tile_1_0[ty][4 * tx + v]           1 wavefront, ideal 1 (conflict-free)
//   w[c_in * K + k_in]                   16 sectors, ideal 16 (512 bytes in 4 runs)
//   w_tile_0_0[ty][4 * tx + v]           1 wavefront, ideal 1 (conflict-free)
//   w_tile_2_2[4 * tx + v][ty]           1 wavefront, ideal 1 (conflict-free)
//   w_tile_1_2[4 * tx + v][ty]           1 wavefront, ideal 1 (conflict-free)
//   w_tile_0_2[4 * tx + v][ty]           1 wavefront, ideal 1 (conflict-free)
//   w_tile_2_1[4 * tx + v][ty]           1 wavefront, ideal 1 (conflict-free)
//   w_tile_1_1[4 * tx + v][ty]           1 wavefront, ideal 1 (conflict-free)
//   w_tile_0_1[4 * tx + v][ty]           1 wavefront, ideal 1 (conflict-free)
//   w_tile_2_0[4 * tx + v][ty]           1 wavefront, ideal 1 (conflict-free)
//   w_tile_1_0[4 * tx + v][ty]           1 wavefront, ideal 1 (conflict-free)
//   w_tile_0_0[4 * tx + v][ty]           1 wavefront, ideal 1 (conflict-free)
//   dx_filter[(number * K + k) * C + c]  16 sectors, ideal 16 (512 bytes in 4 runs)
//
// Ideal accesses of conv_winograd_gradient_dx_tile, without a remark in the code:
//   dy[((n * H + h) * W + w_) * K + k0]                                 16 sectors, ideal 16 (512 contiguous bytes)
//   dx_tile[(((number * N + n) * 10 + i_tile) * 10 + j_tile) * K + k0]  16 sectors, ideal 16 (512 contiguous bytes)
//
// Ideal accesses of conv_winograd_gradient_dx_product, without a remark in the code:
//   dx_tile_global[c * K + BK * stage + r]                        4 sectors, ideal 4 (128 bytes in 4 runs)
//   dx_filters[stage][dx_filter_k + r][dx_filter_c]               4 wavefronts, ideal 4 (128 words over 32 banks)
//   dx_filter_global[(BK * stage + r) * C]                        16 sectors, ideal 16 (512 bytes in 2 runs)
//   dx_tile_shared[0][0][0]                                       2 wavefronts, ideal 2 (conflict-free)
//   dx_filter_shared[0][0][32 * u]                                2 wavefronts, ideal 2 (conflict-free)
//   dx_tile_global[c * K + prefetch_k + r]                        4 sectors, ideal 4 (128 bytes in 4 runs)
//   dx_filters[write_stage][dx_filter_k + r][dx_filter_c]         4 wavefronts, ideal 4 (128 words over 32 banks)
//   dx_filter_global[(prefetch_k + r) * C]                        16 sectors, ideal 16 (512 bytes in 2 runs)
//   dx_tile_shared[read_stage][k][0]                              2 wavefronts, ideal 2 (conflict-free)
//   dx_filter_shared[read_stage][k][32 * u]                       2 wavefronts, ideal 2 (conflict-free)
//   dx_tile_shared[next_stage][0][0]                              2 wavefronts, ideal 2 (conflict-free)
//   dx_filter_shared[next_stage][0][32 * u]                       2 wavefronts, ideal 2 (conflict-free)
//   partials[k_slice][thread_m + i][thread_n + 32 * g]            4 wavefronts, ideal 4 (128 words over 32 banks)
//   partials[s][tile_m][tile_n]                                   4 wavefronts, ideal 4 (128 words over 32 banks)
//   dx_product[(element * (100 * N) + n_i_tile_j_tile) * C + c_]  16 sectors, ideal 16 (512 bytes in 2 runs)
//
// Ideal accesses of conv_winograd_gradient_dx, without a remark in the code:
//   dx_product[((n * 10 + i_tile) * 10 + j_tile) * C + c]             4 sectors, ideal 4 (128 contiguous bytes)
//   dx_product[(((4 * N + n) * 10 + i_tile) * 10 + j_tile) * C + c]   4 sectors, ideal 4 (128 contiguous bytes)
//   dx_product[(((8 * N + n) * 10 + i_tile) * 10 + j_tile) * C + c]   4 sectors, ideal 4 (128 contiguous bytes)
//   dx_product[(((N + n) * 10 + i_tile) * 10 + j_tile) * C + c]       4 sectors, ideal 4 (128 contiguous bytes)
//   dx_product[(((5 * N + n) * 10 + i_tile) * 10 + j_tile) * C + c]   4 sectors, ideal 4 (128 contiguous bytes)
//   dx_product[(((9 * N + n) * 10 + i_tile) * 10 + j_tile) * C + c]   4 sectors, ideal 4 (128 contiguous bytes)
//   dx_product[(((2 * N + n) * 10 + i_tile) * 10 + j_tile) * C + c]   4 sectors, ideal 4 (128 contiguous bytes)
//   dx_product[(((6 * N + n) * 10 + i_tile) * 10 + j_tile) * C + c]   4 sectors, ideal 4 (128 contiguous bytes)
//   dx_product[(((10 * N + n) * 10 + i_tile) * 10 + j_tile) * C + c]  4 sectors, ideal 4 (128 contiguous bytes)
//   dx_product[(((3 * N + n) * 10 + i_tile) * 10 + j_tile) * C + c]   4 sectors, ideal 4 (128 contiguous bytes)
//   dx_product[(((7 * N + n) * 10 + i_tile) * 10 + j_tile) * C + c]   4 sectors, ideal 4 (128 contiguous bytes)
//   dx_product[(((11 * N + n) * 10 + i_tile) * 10 + j_tile) * C + c]  4 sectors, ideal 4 (128 contiguous bytes)
//   dx_product[(((12 * N + n) * 10 + i_tile) * 10 + j_tile) * C + c]  4 sectors, ideal 4 (128 contiguous bytes)
//   dx_product[(((13 * N + n) * 10 + i_tile) * 10 + j_tile) * C + c]  4 sectors, ideal 4 (128 contiguous bytes)
//   dx_product[(((14 * N + n) * 10 + i_tile) * 10 + j_tile) * C + c]  4 sectors, ideal 4 (128 contiguous bytes)
//   dx_product[(((15 * N + n) * 10 + i_tile) * 10 + j_tile) * C + c]  4 sectors, ideal 4 (128 contiguous bytes)
//   dx[((n * H + 2 * i_tile) * W + 2 * j_tile) * C + c]               4 sectors, ideal 4 (128 contiguous bytes)
//   dx[((n * H + 2 * i_tile) * W + 2 * j_tile + 1) * C + c]           4 sectors, ideal 4 (128 contiguous bytes)
//   dx[((n * H + 2 * i_tile + 1) * W + 2 * j_tile) * C + c]           4 sectors, ideal 4 (128 contiguous bytes)
//   dx[((n * H + 2 * i_tile + 1) * W + 2 * j_tile + 1) * C + c]       4 sectors, ideal 4 (128 contiguous bytes)

#include <cuda_pipeline_primitives.h>

constexpr int N = 6;
constexpr int C = 128;
constexpr int K = 128;
constexpr int H = 19;
constexpr int W = 19;

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

extern "C" __global__ void __launch_bounds__(256) conv_winograd_gradient_dx_filter(
    const float* __restrict__ w,
    float* __restrict__ dx_filter)
{
    __shared__ float w_tile_2_2[32][33];
    __shared__ float w_tile_1_2[32][33];
    __shared__ float w_tile_0_2[32][33];
    __shared__ float w_tile_2_1[32][33];
    __shared__ float w_tile_1_1[32][33];
    __shared__ float w_tile_0_1[32][33];
    __shared__ float w_tile_2_0[32][33];
    __shared__ float w_tile_1_0[32][33];
    __shared__ float w_tile_0_0[32][33];

    const int c0 = blockIdx.x * 32;
    const int k0 = blockIdx.y * 32;
    const int tx = threadIdx.x;
    const int ty = threadIdx.y;

    const int k_in = k0 + 4 * tx;
    const int c_in = c0 + ty;
    const auto w4_2_2 = load<4>(&w[(8 * C + c_in) * K + k_in]);
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        w_tile_2_2[ty][4 * tx + v] = w4_2_2.data[v];
    }
    const auto w4_1_2 = load<4>(&w[(5 * C + c_in) * K + k_in]);
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        w_tile_1_2[ty][4 * tx + v] = w4_1_2.data[v];
    }
    const auto w4_0_2 = load<4>(&w[(2 * C + c_in) * K + k_in]);
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        w_tile_0_2[ty][4 * tx + v] = w4_0_2.data[v];
    }
    const auto w4_2_1 = load<4>(&w[(7 * C + c_in) * K + k_in]);
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        w_tile_2_1[ty][4 * tx + v] = w4_2_1.data[v];
    }
    const auto w4_1_1 = load<4>(&w[(4 * C + c_in) * K + k_in]);
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        w_tile_1_1[ty][4 * tx + v] = w4_1_1.data[v];
    }
    const auto w4_0_1 = load<4>(&w[(C + c_in) * K + k_in]);
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        w_tile_0_1[ty][4 * tx + v] = w4_0_1.data[v];
    }
    const auto w4_2_0 = load<4>(&w[(6 * C + c_in) * K + k_in]);
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        w_tile_2_0[ty][4 * tx + v] = w4_2_0.data[v];
    }
    const auto w4_1_0 = load<4>(&w[(3 * C + c_in) * K + k_in]);
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        w_tile_1_0[ty][4 * tx + v] = w4_1_0.data[v];
    }
    const auto w4_0_0 = load<4>(&w[c_in * K + k_in]);
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        w_tile_0_0[ty][4 * tx + v] = w4_0_0.data[v];
    }
    __syncthreads();

    const int c = c0 + 4 * tx;
    const int k = k0 + ty;
    Vector<float, 4> dx_filter4[16];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        const float w_2_2 = w_tile_2_2[4 * tx + v][ty];
        const float w_1_2 = w_tile_1_2[4 * tx + v][ty];
        const float w_0_2 = w_tile_0_2[4 * tx + v][ty];
        const float w_2_1 = w_tile_2_1[4 * tx + v][ty];
        const float w_1_1 = w_tile_1_1[4 * tx + v][ty];
        const float w_0_1 = w_tile_0_1[4 * tx + v][ty];
        const float w_2_0 = w_tile_2_0[4 * tx + v][ty];
        const float w_1_0 = w_tile_1_0[4 * tx + v][ty];
        const float w_0_0 = w_tile_0_0[4 * tx + v][ty];
        const float gg10 = 0.5f * (w_2_2 + w_1_2 + w_0_2);
        const float gg11 = 0.5f * (w_2_1 + w_1_1 + w_0_1);
        const float gg12 = 0.5f * (w_2_0 + w_1_0 + w_0_0);
        const float gg20 = 0.5f * (w_2_2 + w_0_2 - w_1_2);
        const float gg21 = 0.5f * (w_2_1 + w_0_1 - w_1_1);
        const float gg22 = 0.5f * (w_2_0 + w_0_0 - w_1_0);
        dx_filter4[0].data[v] = w_2_2;
        dx_filter4[1].data[v] = 0.5f * (w_2_2 + w_2_1 + w_2_0);
        dx_filter4[2].data[v] = 0.5f * (w_2_2 + w_2_0 - w_2_1);
        dx_filter4[3].data[v] = w_2_0;
        dx_filter4[4].data[v] = gg10;
        dx_filter4[5].data[v] = 0.5f * (gg10 + gg11 + gg12);
        dx_filter4[6].data[v] = 0.5f * (gg10 + gg12 - gg11);
        dx_filter4[7].data[v] = gg12;
        dx_filter4[8].data[v] = gg20;
        dx_filter4[9].data[v] = 0.5f * (gg20 + gg21 + gg22);
        dx_filter4[10].data[v] = 0.5f * (gg20 + gg22 - gg21);
        dx_filter4[11].data[v] = gg22;
        dx_filter4[12].data[v] = w_0_2;
        dx_filter4[13].data[v] = 0.5f * (w_0_2 + w_0_1 + w_0_0);
        dx_filter4[14].data[v] = 0.5f * (w_0_2 + w_0_0 - w_0_1);
        dx_filter4[15].data[v] = w_0_0;
    }
    #pragma unroll
    for (int number = 0; number < 16; ++number) {
        store<4>(&dx_filter[(number * K + k) * C + c], dx_filter4[number]);
    }
}

extern "C" __global__ void __launch_bounds__(128) conv_winograd_gradient_dx_tile(
    const float* __restrict__ dy,
    float* __restrict__ dx_tile)
{
    const int n = blockIdx.z / 10;
    const int i_tile = blockIdx.z % 10;
    const int j_tile = blockIdx.y * 4 + threadIdx.y;
    const int k0 = blockIdx.x * 128 + threadIdx.x * 4;
    if (j_tile >= 10)
        return;

    // register windows: what the thread's outputs read
    float dy_window[4][4][4];
    #pragma unroll
    for (int plane = 0; plane < 4; ++plane) {
        const int h = 2 * i_tile + plane - 1;
        #pragma unroll
        for (int row = 0; row < 4; ++row) {
            const int w_ = 2 * j_tile + row - 1;
            Vector<float, 4> dy4 = {};
            if (h >= 0 && h < H && w_ >= 0 && w_ < W) {
                dy4 = load<4>(&dy[((n * H + h) * W + w_) * K + k0]);
            }
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                dy_window[plane][row][v] = dy4.data[v];
            }
        }
    }

    Vector<float, 4> dx_tile4[16];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        const float bd00 = dy_window[0][0][v] - dy_window[2][0][v];
        const float bd01 = dy_window[0][1][v] - dy_window[2][1][v];
        const float bd02 = dy_window[0][2][v] - dy_window[2][2][v];
        const float bd03 = dy_window[0][3][v] - dy_window[2][3][v];
        const float bd10 = dy_window[1][0][v] + dy_window[2][0][v];
        const float bd11 = dy_window[1][1][v] + dy_window[2][1][v];
        const float bd12 = dy_window[1][2][v] + dy_window[2][2][v];
        const float bd13 = dy_window[1][3][v] + dy_window[2][3][v];
        const float bd20 = dy_window[2][0][v] - dy_window[1][0][v];
        const float bd21 = dy_window[2][1][v] - dy_window[1][1][v];
        const float bd22 = dy_window[2][2][v] - dy_window[1][2][v];
        const float bd23 = dy_window[2][3][v] - dy_window[1][3][v];
        const float bd30 = dy_window[1][0][v] - dy_window[3][0][v];
        const float bd31 = dy_window[1][1][v] - dy_window[3][1][v];
        const float bd32 = dy_window[1][2][v] - dy_window[3][2][v];
        const float bd33 = dy_window[1][3][v] - dy_window[3][3][v];
        dx_tile4[0].data[v] = bd00 - bd02;
        dx_tile4[1].data[v] = bd01 + bd02;
        dx_tile4[2].data[v] = bd02 - bd01;
        dx_tile4[3].data[v] = bd01 - bd03;
        dx_tile4[4].data[v] = bd10 - bd12;
        dx_tile4[5].data[v] = bd11 + bd12;
        dx_tile4[6].data[v] = bd12 - bd11;
        dx_tile4[7].data[v] = bd11 - bd13;
        dx_tile4[8].data[v] = bd20 - bd22;
        dx_tile4[9].data[v] = bd21 + bd22;
        dx_tile4[10].data[v] = bd22 - bd21;
        dx_tile4[11].data[v] = bd21 - bd23;
        dx_tile4[12].data[v] = bd30 - bd32;
        dx_tile4[13].data[v] = bd31 + bd32;
        dx_tile4[14].data[v] = bd32 - bd31;
        dx_tile4[15].data[v] = bd31 - bd33;
    }
    #pragma unroll
    for (int number = 0; number < 16; ++number) {
        store<4>(&dx_tile[(((number * N + n) * 10 + i_tile) * 10 + j_tile) * K + k0], dx_tile4[number]);
    }
}

extern "C" __global__ void __launch_bounds__(128, 5) conv_winograd_gradient_dx_product(
    const float* __restrict__ dx_filter,
    const float* __restrict__ dx_tile,
    float* __restrict__ dx_product)
{
    extern __shared__ __align__(16) unsigned char shared_memory[];

    constexpr int BM = 32, BN = 64, BK = 32, STAGES = 3, TM = 4, TN = 8, WM = 16;

    // circular buffer of 3 stages, [stage][k][n_i_tile_j_tile or c]
    float (*dx_tiles)[BK][BM + 4] = reinterpret_cast<float (*)[BK][BM + 4]>(shared_memory);
    float (*dx_filters)[BK][BN] = reinterpret_cast<float (*)[BK][BN]>(dx_tiles + STAGES);
    float (*partials)[BM][BN + 4] = reinterpret_cast<float (*)[BM][BN + 4]>(shared_memory);

    const int element = blockIdx.z;
    // tiles at the edge are shifted inside and overlap others: they need no bounds checks
    const int n_i_tile_j_tile0 = min(blockIdx.y * BM, 100 * N - BM);
    const int c0 = blockIdx.x * BN;
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    // sliced-K: each warp group multiplies 16 of the 32 k of a tile, with copies and barriers of its own
    const int k_slice = thread / 64;
    const int thread_in_slice = thread % 64;
    const int warp = thread_in_slice / 32;
    // warp tile 16 x 64, lanes 4 x 8 interleaved so that lane pairs broadcast
    const int lane_m = 2 * (lane / 16) + lane % 2;
    const int lane_n = lane / 2 % 8;
    const int thread_m = WM * warp + 4 * lane_m;
    const int thread_n = 4 * lane_n;
    const int dx_tile_k = BK / 2 * k_slice + thread_in_slice % 8;
    const int dx_tile_n_i_tile_j_tile = thread_in_slice / 8;
    const int dx_filter_k = BK / 2 * k_slice + thread_in_slice / 16;
    const int dx_filter_c = 4 * (thread_in_slice % 16);

    float acc[TM][TN] = {};

    const float* dx_tile_global =
        &dx_tile[(element * (100 * N) + n_i_tile_j_tile0 + dx_tile_n_i_tile_j_tile) * K + dx_tile_k];
    const float* dx_filter_global = &dx_filter[(element * K + dx_filter_k) * C + c0 + dx_filter_c];
    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        #pragma unroll
        for (int r = 0; r < BK / 2; r += 8) {
            #pragma unroll
            for (int c = 0; c < BM; c += 8) {
                // dx_tiles[stage][dx_tile_k + r][dx_tile_n_i_tile_j_tile + c]: 4 wavefronts, ideal 1
                // (lanes 0 and 8 copy from one bank)
                __pipeline_memcpy_async(&dx_tiles[stage][dx_tile_k + r][dx_tile_n_i_tile_j_tile + c],
                    &dx_tile_global[c * K + BK * stage + r], 4);
            }
        }
        #pragma unroll
        for (int r = 0; r < BK / 2; r += 4) {
            __pipeline_memcpy_async(&dx_filters[stage][dx_filter_k + r][dx_filter_c],
                &dx_filter_global[(BK * stage + r) * C], 16);
        }
        __pipeline_commit();
    }

    __pipeline_wait_prior(STAGES - 2);
    __barrier_sync_count(k_slice + 1, 64);
    // register fragments of A and B for one k, double-buffered
    Vector<float, 4> dx_tile_frag[2];
    Vector<float, 4> dx_filter_frag[2][TN / 4];
    const float (*dx_tile_shared)[BK][BM + 4] =
        reinterpret_cast<const float (*)[BK][BM + 4]>(&dx_tiles[0][BK / 2 * k_slice][thread_m]);
    const float (*dx_filter_shared)[BK][BN] =
        reinterpret_cast<const float (*)[BK][BN]>(&dx_filters[0][BK / 2 * k_slice][thread_n]);
    dx_tile_frag[0] = load<4>(&dx_tile_shared[0][0][0]);
    #pragma unroll
    for (int u = 0; u < TN / 4; ++u) {
        dx_filter_frag[0][u] = load<4>(&dx_filter_shared[0][0][32 * u]);
    }
    for (int k0 = 0, read_stage = 0; k0 < K; k0 += BK, read_stage = read_stage < STAGES - 1 ? read_stage + 1 : 0) {
        const int write_stage = read_stage > 0 ? read_stage - 1 : STAGES - 1;
        // past the last k-tile: copy it again, so that the loop has no branch
        const int prefetch_k = min(k0 + BK * (STAGES - 1), K - BK);
        #pragma unroll
        for (int k = 1; k < BK / 2; ++k) {
            if (k == BK / 2 / 4) {
                #pragma unroll
                for (int r = 0; r < BK / 2; r += 8) {
                    #pragma unroll
                    for (int c = 0; c < BM; c += 8) {
                        // dx_tiles[write_stage][dx_tile_k + r][dx_tile_n_i_tile_j_tile + c]: 4 wavefronts, ideal 1
                        // (lanes 0 and 8 copy from one bank)
                        __pipeline_memcpy_async(&dx_tiles[write_stage][dx_tile_k + r][dx_tile_n_i_tile_j_tile + c],
                            &dx_tile_global[c * K + prefetch_k + r], 4);
                    }
                }
            }
            if (k == BK / 2 / 2) {
                #pragma unroll
                for (int r = 0; r < BK / 2; r += 4) {
                    __pipeline_memcpy_async(&dx_filters[write_stage][dx_filter_k + r][dx_filter_c],
                        &dx_filter_global[(prefetch_k + r) * C], 16);
                }
                __pipeline_commit();
            }
            dx_tile_frag[k % 2] = load<4>(&dx_tile_shared[read_stage][k][0]);
            #pragma unroll
            for (int u = 0; u < TN / 4; ++u) {
                dx_filter_frag[k % 2][u] = load<4>(&dx_filter_shared[read_stage][k][32 * u]);
            }
            #pragma unroll
            for (int j = 0; j < TN; ++j) {
                #pragma unroll
                for (int t = 0; t < TM; ++t) {
                    // serpentine: every other column backwards
                    const int i = j % 2 == 0 ? t : TM - t - 1;
                    acc[i][j] += dx_filter_frag[(k + 1) % 2][j / 4].data[j % 4] * dx_tile_frag[(k + 1) % 2].data[i];
                }
            }
        }
        __pipeline_wait_prior(STAGES - 2);
        __barrier_sync_count(k_slice + 1, 64);
        // fragments of the next k-tile; unused after the last
        const int next_stage = read_stage < STAGES - 1 ? read_stage + 1 : 0;
        dx_tile_frag[0] = load<4>(&dx_tile_shared[next_stage][0][0]);
        #pragma unroll
        for (int u = 0; u < TN / 4; ++u) {
            dx_filter_frag[0][u] = load<4>(&dx_filter_shared[next_stage][0][32 * u]);
        }
        #pragma unroll
        for (int j = 0; j < TN; ++j) {
            #pragma unroll
            for (int t = 0; t < TM; ++t) {
                // serpentine: every other column backwards
                const int i = j % 2 == 0 ? t : TM - t - 1;
                acc[i][j] += dx_filter_frag[1][j / 4].data[j % 4] * dx_tile_frag[1].data[i];
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
            store<4>(&partials[k_slice][thread_m + i][thread_n + 32 * g], acc_vector);
        }
    }
    __syncthreads();
    #pragma unroll
    for (int e = 0; e < BM * (BN / 4); e += 128) {
        const int tile_m = (thread + e) / (BN / 4);
        const int tile_n = 4 * ((thread + e) % (BN / 4));
        const int n_i_tile_j_tile = n_i_tile_j_tile0 + tile_m;
        const int c_ = c0 + tile_n;
        Vector<float, 4> slice_sums[2];
        #pragma unroll
        for (int s = 0; s < 2; ++s) {
            slice_sums[s] = load<4>(&partials[s][tile_m][tile_n]);
        }
        Vector<float, 4> dx_product4;
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            dx_product4.data[v] = slice_sums[0].data[v] + slice_sums[1].data[v];
        }
        store<4>(&dx_product[(element * (100 * N) + n_i_tile_j_tile) * C + c_], dx_product4);
    }
}

extern "C" __global__ void __launch_bounds__(256) conv_winograd_gradient_dx(
    float* __restrict__ dx,
    const float* __restrict__ dx_product)
{
    const int n = blockIdx.z / 10;
    const int i_tile = blockIdx.z % 10;
    const int j_tile = blockIdx.y * 2 + threadIdx.y;
    const int c = blockIdx.x * 128 + threadIdx.x;

    const float dx_product_0 = dx_product[((n * 10 + i_tile) * 10 + j_tile) * C + c];
    const float dx_product_4 = dx_product[(((4 * N + n) * 10 + i_tile) * 10 + j_tile) * C + c];
    const float dx_product_8 = dx_product[(((8 * N + n) * 10 + i_tile) * 10 + j_tile) * C + c];
    const float am00 = dx_product_0 + dx_product_4 + dx_product_8;
    const float dx_product_1 = dx_product[(((N + n) * 10 + i_tile) * 10 + j_tile) * C + c];
    const float dx_product_5 = dx_product[(((5 * N + n) * 10 + i_tile) * 10 + j_tile) * C + c];
    const float dx_product_9 = dx_product[(((9 * N + n) * 10 + i_tile) * 10 + j_tile) * C + c];
    const float am01 = dx_product_1 + dx_product_5 + dx_product_9;
    const float dx_product_2 = dx_product[(((2 * N + n) * 10 + i_tile) * 10 + j_tile) * C + c];
    const float dx_product_6 = dx_product[(((6 * N + n) * 10 + i_tile) * 10 + j_tile) * C + c];
    const float dx_product_10 = dx_product[(((10 * N + n) * 10 + i_tile) * 10 + j_tile) * C + c];
    const float am02 = dx_product_2 + dx_product_6 + dx_product_10;
    const float dx_product_3 = dx_product[(((3 * N + n) * 10 + i_tile) * 10 + j_tile) * C + c];
    const float dx_product_7 = dx_product[(((7 * N + n) * 10 + i_tile) * 10 + j_tile) * C + c];
    const float dx_product_11 = dx_product[(((11 * N + n) * 10 + i_tile) * 10 + j_tile) * C + c];
    const float am03 = dx_product_3 + dx_product_7 + dx_product_11;
    const float dx_product_12 = dx_product[(((12 * N + n) * 10 + i_tile) * 10 + j_tile) * C + c];
    const float am10 = dx_product_4 - dx_product_8 - dx_product_12;
    const float dx_product_13 = dx_product[(((13 * N + n) * 10 + i_tile) * 10 + j_tile) * C + c];
    const float am11 = dx_product_5 - dx_product_9 - dx_product_13;
    const float dx_product_14 = dx_product[(((14 * N + n) * 10 + i_tile) * 10 + j_tile) * C + c];
    const float am12 = dx_product_6 - dx_product_10 - dx_product_14;
    const float dx_product_15 = dx_product[(((15 * N + n) * 10 + i_tile) * 10 + j_tile) * C + c];
    const float am13 = dx_product_7 - dx_product_11 - dx_product_15;
    dx[((n * H + 2 * i_tile) * W + 2 * j_tile) * C + c] = am00 + am01 + am02;
    if (2 * j_tile + 1 < W) {
        dx[((n * H + 2 * i_tile) * W + 2 * j_tile + 1) * C + c] = am01 - am02 - am03;
    }
    if (2 * i_tile + 1 < H) {
        dx[((n * H + 2 * i_tile + 1) * W + 2 * j_tile) * C + c] = am10 + am11 + am12;
    }
    if (2 * i_tile + 1 < H && 2 * j_tile + 1 < W) {
        dx[((n * H + 2 * i_tile + 1) * W + 2 * j_tile + 1) * C + c] = am11 - am12 - am13;
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" size_t conv_winograd_gradient_workspace_bytes(void)
{
    return 256 * ((64 * C * K + 255) / 256) + 256 * ((6400 * C * N + 255) / 256) + 256 * ((6400 * K * N + 255) / 256);
}

extern "C" cudaError_t conv_winograd_gradient_launch(
    const float* dy,
    const float* w,
    float* dx,
    void* workspace,
    cudaStream_t stream)
{
    cudaError_t status = cudaSuccess;
    const bool allocates = workspace == nullptr;
    if (allocates)
        status = cudaMallocAsync(&workspace, conv_winograd_gradient_workspace_bytes(), stream);
    if (status != cudaSuccess)
        return status;
    float* const dx_filter = static_cast<float*>(workspace);
    float* const dx_tile = reinterpret_cast<float*>(static_cast<char*>(workspace) + 256 * ((64 * C * K + 255) / 256));
    float* const dx_product = reinterpret_cast<float*>(static_cast<char*>(workspace) + 256 * ((64 * C * K + 255) / 256)
        + 256 * ((6400 * K * N + 255) / 256));
    conv_winograd_gradient_dx_filter<<<dim3((C + 31) / 32, (K + 31) / 32), dim3(8, 32), 0, stream>>>(w, dx_filter);
    conv_winograd_gradient_dx_tile<<<dim3((K + 127) / 128, 3, 10 * N), dim3(32, 4), 0, stream>>>(dy, dx_tile);
    conv_winograd_gradient_dx_product<<<dim3((C + 63) / 64, (100 * N + 31) / 32, 16), dim3(128), 38400,
        stream>>>(dx_filter, dx_tile, dx_product);
    conv_winograd_gradient_dx<<<dim3((C + 127) / 128, 5, 10 * N), dim3(128, 2), 0, stream>>>(dx, dx_product);
    if (allocates)
        cudaFreeAsync(workspace, stream);
    return cudaGetLastError();
}

#endif
