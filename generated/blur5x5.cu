// blur5x5: An image smoothed by a binomial filter of 5 × 5 taps; beyond its edges the image goes on as its last pixel
//
// computes  blurred[y, x] = sum(taps[r, s] * image[y + r - 2, x + s - 2], r, s)
// params    H = 150, W = 201
// image     input, float32 [150, 201], outside: clamp
// taps      baked, float32 [5, 5], constant
// blurred   output, float32 [150, 201]
// launch    grid (7, 38, 1), block (32, 4, 1); family stencil
// bounds    7 of 7 accesses proved
// analysis  sm_90: 4 accesses, 1 ideal, 3 costly
//           worst: image[h * W + x_left + column], 5 sectors, ideal 4; 4.39 on average (misaligned by 8 bytes)
//
// Made by cugen 0.1.0 from blur5x5.yaml (hash 18f02c6c85637456) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   taps[r][s]  1 request, ideal 1 (uniform address)

constexpr int H = 150;
constexpr int W = 201;

__constant__ float taps[5][5] = {
    {0.00390625f,   0.015625f,  0.0234375f,   0.015625f, 0.00390625f},
    {  0.015625f,     0.0625f,    0.09375f,     0.0625f,   0.015625f},
    { 0.0234375f,    0.09375f,   0.140625f,    0.09375f,  0.0234375f},
    {  0.015625f,     0.0625f,    0.09375f,     0.0625f,   0.015625f},
    {0.00390625f,   0.015625f,  0.0234375f,   0.015625f, 0.00390625f},
};

extern "C" __global__ void __launch_bounds__(128) blur5x5(
    const float* __restrict__ image,
    float* __restrict__ blurred)
{
    const int y = blockIdx.y * 4 + threadIdx.y;
    const int x = blockIdx.x * 32 + threadIdx.x;
    if (y >= H || x >= W)
        return;

    // register windows: what the thread's outputs read
    float image_window[5][5];
    const int x_left = x - 2;
    if (x_left >= 0 && x_left + 5 <= W) {
        #pragma unroll
        for (int row = 0; row < 5; ++row) {
            const int h = min(max(y + row - 2, 0), H - 1);
            #pragma unroll
            for (int column = 0; column < 5; ++column) {
                // image[h * W + x_left + column]: 5 sectors, ideal 4; 4.39 on average (misaligned by 8 bytes)
                image_window[row][column] = image[h * W + x_left + column];
            }
        }
    } else {
        #pragma unroll
        for (int row = 0; row < 5; ++row) {
            const int h = min(max(y + row - 2, 0), H - 1);
            #pragma unroll
            for (int column = 0; column < 5; ++column) {
                const int w = min(max(x_left + column, 0), W - 1);
                // image[h * W + w]: 2 sectors, ideal 1; 1.07 on average (misaligned by 28 bytes)
                image_window[row][column] = image[h * W + w];
            }
        }
    }

    float sum = 0.0f;
    #pragma unroll
    for (int r = 0; r < 5; ++r) {
        #pragma unroll
        for (int s = 0; s < 5; ++s) {
            const float taps_r_s = taps[r][s];
            sum += taps_r_s * image_window[r][s];
        }
    }
    // blurred[y * W + x]: 5 sectors, ideal 4; 4.46 on average (misaligned by 16 bytes)
    blurred[y * W + x] = sum;
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t blur5x5_launch(
    const float* image,
    float* blurred,
    cudaStream_t stream)
{
    blur5x5<<<dim3((W + 31) / 32, (H + 3) / 4), dim3(32, 4), 0, stream>>>(image, blurred);
    return cudaGetLastError();
}

#endif
