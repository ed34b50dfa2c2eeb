// conv_transposed: A transposed convolution with stride 2, which doubles an image
//
// computes  y[o, p, q] = sum(w[c, o, r, s] * x[c, (p + pad - r) // stride, (q + pad - s) // stride], c, r, s,
//           where=(p + pad - r) % stride == 0 and (q + pad - s) % stride == 0)
// params    C = 4, O = 5, H = 17, W = 20, R = 4, stride = 2, pad = 1, P = 34, Q = 40
// x         input, float32 [4, 17, 20], outside: zero
// w         input, float32 [4, 5, 4, 4]
// y         output, float32 [5, 34, 40]
// launch    grid (2, 5, 5), block (32, 8, 1), 1728 bytes of shared memory; family staged
// analysis  sm_90: 5 accesses, 4 ideal, 1 costly
//           worst: x[(element / 108 * H + h) * W + w_], 3 sectors, ideal 1; 3.79 on average (28 bytes in 2 runs)
//
// Made by cugen 0.1.0 from conv_transposed.yaml (hash cc72c12fbd4fa39c) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   x_tile[element / 108][element / 18 % 6][element % 18]                     1 wavefront, ideal 1 (conflict-free)
//   w[((c * O + o) * R + r) * R + s]                                          1 sector, ideal 1 (uniform address)
//   x_tile[c][floor_div((int)threadIdx.y + pad - r, stride) + 1][floor_div((int)threadIdx.x + pad - s, stride) + 1]
//       1 wavefront, ideal 1 (conflict-free)
//   y[(o * P + p) * Q + q]                                                    4 sectors, ideal 4 (128 contiguous bytes)

constexpr int C = 4;
constexpr int O = 5;
constexpr int H = 17;
constexpr int W = 20;
constexpr int R = 4;
constexpr int stride = 2;
constexpr int pad = 1;
constexpr int P = 34;
constexpr int Q = 40;

#ifndef CUGEN_FLOOR_DIV_INT
#define CUGEN_FLOOR_DIV_INT
// Floor division by a positive b.
__device__ __forceinline__ int floor_div(int a, int b)
{
    return a / b - (a % b < 0);
}
#endif

#ifndef CUGEN_FLOOR_MOD_INT
#define CUGEN_FLOOR_MOD_INT
// Remainder of the floor division by a positive b: 0 .. b - 1.
__device__ __forceinline__ int floor_mod(int a, int b)
{
    const int remainder = a % b;
    return remainder < 0 ? remainder + b : remainder;
}
#endif

extern "C" __global__ void __launch_bounds__(256) conv_transposed(
    const float* __restrict__ x,
    const float* __restrict__ w,
    float* __restrict__ y)
{
    __shared__ __align__(16) float x_tile[4][6][18];

    const int p_first = blockIdx.y * 4 - 1;
    const int q_first = blockIdx.x * 16 - 1;
    // Tiles with their halo, filled by the whole block.
    for (int element = threadIdx.x + threadIdx.y * 32; element < 432; element += 256) {
        const int h = p_first + element / 18 % 6;
        const int w_ = q_first + element % 18;
        // x[(element / 108 * H + h) * W + w_]: 3 sectors, ideal 1; 3.79 on average (28 bytes in 2 runs)
        x_tile[element / 108][element / 18 % 6][element % 18] = h >= 0 && h < H && w_ >= 0 && w_ < W
            ? x[(element / 108 * H + h) * W + w_] : 0.0f;
    }
    __syncthreads();

    const int o = blockIdx.z;
    const int p = blockIdx.y * 8 + threadIdx.y;
    const int q = blockIdx.x * 32 + threadIdx.x;
    if (p >= P || q >= Q)
        return;
    float sum = 0.0f;
    for (int c = 0; c < C; ++c) {
        for (int r = 0; r < R; ++r) {
            if (floor_mod(p + pad - r, stride) == 0) {
                for (int s = 0; s < R; ++s) {
                    if (floor_mod(q + pad - s, stride) == 0) {
                        const float w_c_o_r_s = w[((c * O + o) * R + r) * R + s];
                        const float x_value =
                            x_tile[c][floor_div((int)threadIdx.y + pad - r, stride)
                            + 1][floor_div((int)threadIdx.x + pad - s, stride) + 1];
                        sum += w_c_o_r_s * x_value;
                    }
                }
            }
        }
    }
    y[(o * P + p) * Q + q] = sum;
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t conv_transposed_launch(
    const float* x,
    const float* w,
    float* y,
    cudaStream_t stream)
{
    conv_transposed<<<dim3((Q + 31) / 32, (P + 7) / 8, O), dim3(32, 8), 0, stream>>>(x, w, y);
    return cudaGetLastError();
}

#endif
