// conv_strided_dilated: A convolution over channels with stride, dilation and zero padding, as in neural networks
//
// computes  y[o, p, q] = sum(w[o, c, r, s] * x[c, stride * p + dilation * r - pad, stride * q + dilation * s -
//           pad], c, r, s)
// params    C = 4, O = 6, H = 30, W = 37, R = 3, stride = 2, dilation = 2, pad = 2, P = 15, Q = 19
// x         input, float32 [4, 30, 37], outside: zero
// w         input, float32 [6, 4, 3, 3]
// y         output, float32 [6, 15, 19]
// launch    grid (1, 4, 6), block (32, 4, 1); family stencil
// analysis  sm_90: 8 accesses, 1 ideal, 7 costly
//           worst: x[(plane * H + 2 * p - 2) * W + q_left + column], 5 sectors, ideal 3 (lanes 8 bytes apart)
//
// Made by cugen 0.1.0 from conv_strided_dilated.yaml (hash 62833fa70f9a732c) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   w[((o * C + c) * R + r) * R + s]  1 sector, ideal 1 (uniform address)

constexpr int C = 4;
constexpr int H = 30;
constexpr int W = 37;
constexpr int R = 3;
constexpr int dilation = 2;
constexpr int pad = 2;
constexpr int P = 15;
constexpr int Q = 19;

extern "C" __global__ void __launch_bounds__(128) conv_strided_dilated(
    const float* __restrict__ x,
    const float* __restrict__ w,
    float* __restrict__ y)
{
    const int o = blockIdx.z;
    const int p = blockIdx.y * 4 + threadIdx.y;
    const int q = blockIdx.x * 32 + threadIdx.x;
    if (p >= P || q >= Q)
        return;

    // Register windows of the outputs, with boundary handling.
    float x_window[4][5][5];
    const int q_left = 2 * q - 2;
    if (q_left >= 0 && q_left + 5 <= W) {
        #pragma unroll
        for (int plane = 0; plane < 4; ++plane) {
            if (2 * p - 2 >= 0) {
                #pragma unroll
                for (int column = 0; column < 5; column += 2) {
                    // x[(plane * H + 2 * p - 2) * W + q_left + column]: 5 sectors, ideal 3 (lanes 8 bytes apart)
                    x_window[plane][0][column] = x[(plane * H + 2 * p - 2) * W + q_left + column];
                }
            } else {
                #pragma unroll
                for (int column = 0; column < 5; column += 2) {
                    x_window[plane][0][column] = 0.0f;
                }
            }
            #pragma unroll
            for (int column = 0; column < 5; column += 2) {
                // x[(plane * H + 2 * p) * W + q_left + column]: 5 sectors, ideal 3 (lanes 8 bytes apart)
                x_window[plane][2][column] = x[(plane * H + 2 * p) * W + q_left + column];
            }
            if (2 * p + 2 < H) {
                #pragma unroll
                for (int column = 0; column < 5; column += 2) {
                    // x[(plane * H + 2 * p + 2) * W + q_left + column]: 5 sectors, ideal 3 (lanes 8 bytes apart)
                    x_window[plane][4][column] = x[(plane * H + 2 * p + 2) * W + q_left + column];
                }
            } else {
                #pragma unroll
                for (int column = 0; column < 5; column += 2) {
                    x_window[plane][4][column] = 0.0f;
                }
            }
        }
    } else {
        #pragma unroll
        for (int plane = 0; plane < 4; ++plane) {
            #pragma unroll
            for (int column = 0; column < 5; column += 2) {
                const int w_ = q_left + column;
                // x[(plane * H + 2 * p - 2) * W + w_]: 2 sectors, ideal 1; 1.33 on average (lanes 144 bytes apart)
                const float x_value = 2 * p - 2 >= 0 && w_ >= 0 && w_ < W ? x[(plane * H + 2 * p - 2) * W + w_] : 0.0f;
                x_window[plane][0][column] = x_value;
            }
            #pragma unroll
            for (int column = 0; column < 5; column += 2) {
                const int w_ = q_left + column;
                // x[(plane * H + 2 * p) * W + w_]: 2 sectors, ideal 1; 1.33 on average (lanes 144 bytes apart)
                const float x_value = w_ >= 0 && w_ < W ? x[(plane * H + 2 * p) * W + w_] : 0.0f;
                x_window[plane][2][column] = x_value;
            }
            #pragma unroll
            for (int column = 0; column < 5; column += 2) {
                const int w_ = q_left + column;
                // x[(plane * H + 2 * p + 2) * W + w_]: 2 sectors, ideal 1; 1.33 on average (lanes 144 bytes apart)
                const float x_value = 2 * p + 2 < H && w_ >= 0 && w_ < W ? x[(plane * H + 2 * p + 2) * W + w_] : 0.0f;
                x_window[plane][4][column] = x_value;
            }
        }
    }

    float sum = 0.0f;
    #pragma unroll
    for (int c = 0; c < C; ++c) {
        #pragma unroll
        for (int r = 0; r < R; ++r) {
            #pragma unroll
            for (int s = 0; s < R; ++s) {
                const float w_o_c_r_s = w[((o * C + c) * R + r) * R + s];
                sum += w_o_c_r_s * x_window[c][dilation * r + 2 - pad][dilation * s + 2 - pad];
            }
        }
    }
    // y[(o * P + p) * Q + q]: 4 sectors, ideal 3; 3.24 on average (misaligned by 28 bytes)
    y[(o * P + p) * Q + q] = sum;
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int O = 6;

extern "C" cudaError_t conv_strided_dilated_launch(
    const float* x,
    const float* w,
    float* y,
    cudaStream_t stream)
{
    conv_strided_dilated<<<dim3((Q + 31) / 32, (P + 3) / 4, O), dim3(32, 4), 0, stream>>>(x, w, y);
    return cudaGetLastError();
}

#endif
