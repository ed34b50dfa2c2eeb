// conv_strided_dilated: A convolution over channels with stride, dilation and zero padding, as in neural networks
//
// computes  y[o, p, q] = sum(w[o, c, r, s] * x[c, stride * p + dilation * r - pad, stride * q + dilation * s -
//           pad], c, r, s)
// params    C = 4, O = 6, H = 30, W = 37, R = 3, stride = 2, dilation = 2, pad = 2, P = 15, Q = 19
// x         input, float32 [4, 30, 37], outside: zero
// w         input, float32 [6, 4, 3, 3]
// y         output, float32 [6, 15, 19]
// launch    grid (1, 2, 6), block (32, 8, 1); family direct
// bounds    3 of 3 accesses proved
// analysis  sm_90: 3 accesses, 1 ideal, 2 costly
//           worst: x[(c * H + h) * W + w_], 6 sectors, ideal 3; 5.33 on average (lanes 8 bytes apart)
//
// Made by cugen 0.1.0 from conv_strided_dilated.yaml (hash 62833fa70f9a732c) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   w[((o * C + c) * R + r) * R + s]  1 sector, ideal 1 (uniform address)

constexpr int C = 4;
constexpr int H = 30;
constexpr int W = 37;
constexpr int R = 3;
constexpr int stride = 2;
constexpr int dilation = 2;
constexpr int pad = 2;
constexpr int P = 15;
constexpr int Q = 19;

extern "C" __global__ void __launch_bounds__(256) conv_strided_dilated(
    const float* __restrict__ x,
    const float* __restrict__ w,
    float* __restrict__ y)
{
    const int o = blockIdx.z;
    const int p = blockIdx.y * 8 + threadIdx.y;
    const int q = blockIdx.x * 32 + threadIdx.x;
    if (p >= P || q >= Q)
        return;

    float sum = 0.0f;
    for (int c = 0; c < C; ++c) {
        for (int r = 0; r < R; ++r) {
            const int h = stride * p + dilation * r - pad;
            for (int s = 0; s < R; ++s) {
                const float w_o_c_r_s = w[((o * C + c) * R + r) * R + s];
                const int w_ = stride * q + dilation * s - pad;
                // x[(c * H + h) * W + w_]: 6 sectors, ideal 3; 5.33 on average (lanes 8 bytes apart)
                const float x_value = h >= 0 && h < H && w_ >= 0 && w_ < W ? x[(c * H + h) * W + w_] : 0.0f;
                sum += w_o_c_r_s * x_value;
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
    conv_strided_dilated<<<dim3((Q + 31) / 32, (P + 7) / 8, O), dim3(32, 8), 0, stream>>>(x, w, y);
    return cudaGetLastError();
}

#endif
