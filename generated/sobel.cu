// sobel: How steep an image is at each pixel, by Sobel's two filters
//
// computes   gx[y, x] = (image[y - 1, x + 1] + 2 * image[y, x + 1] + image[y + 1, x + 1] - image[y - 1, x - 1] - 2
//            * image[y, x - 1] - image[y + 1, x - 1])
//            gy[y, x] = (image[y + 1, x - 1] + 2 * image[y + 1, x] + image[y + 1, x + 1] - image[y - 1, x - 1] - 2
//            * image[y - 1, x] - image[y - 1, x + 1])
//            magnitude[y, x] = sqrt(gx[y, x] * gx[y, x] + gy[y, x] * gy[y, x])
// params     H = 150, W = 201
// image      input, float32 [150, 201], outside: clamp
// magnitude  output, float32 [150, 201]
// launch     grid (7, 19, 1), block (32, 8, 1); family direct
// analysis   sm_90: 9 accesses, 9 costly
//            worst: image[ym1 * W + xp1], 5 sectors, ideal 4; 4.45 on average (starts 4 bytes into a sector)
//
// Made by cugen 0.1.0 from sobel.yaml (hash c8d75bd4541c3531) for sm_90. Edit the spec, not this file.

constexpr int H = 150;
constexpr int W = 201;

extern "C" __global__ void __launch_bounds__(256) sobel(
    const float* __restrict__ image,
    float* __restrict__ magnitude)
{
    const int y = blockIdx.y * 8 + threadIdx.y;
    const int x = blockIdx.x * 32 + threadIdx.x;
    if (y >= H || x >= W)
        return;

    const int ym1 = max(y - 1, 0);
    const int xp1 = min(x + 1, W - 1);
    // image[ym1 * W + xp1]: 5 sectors, ideal 4; 4.45 on average (starts 4 bytes into a sector)
    const float image_ym1_xp1 = image[ym1 * W + xp1];
    // image[y * W + xp1]: 5 sectors, ideal 4; 4.45 on average (starts 4 bytes into a sector)
    const float image_y_xp1 = image[y * W + xp1];
    const int yp1 = min(y + 1, H - 1);
    // image[yp1 * W + xp1]: 5 sectors, ideal 4; 4.45 on average (starts 24 bytes into a sector)
    const float image_yp1_xp1 = image[yp1 * W + xp1];
    const int xm1 = max(x - 1, 0);
    // image[ym1 * W + xm1]: 5 sectors, ideal 4; 4.44 on average (starts 28 bytes into a sector)
    const float image_ym1_xm1 = image[ym1 * W + xm1];
    // image[y * W + xm1]: 5 sectors, ideal 4; 4.44 on average (starts 28 bytes into a sector)
    const float image_y_xm1 = image[y * W + xm1];
    // image[yp1 * W + xm1]: 5 sectors, ideal 4; 4.45 on average (starts 16 bytes into a sector)
    const float image_yp1_xm1 = image[yp1 * W + xm1];
    const float gx = image_ym1_xp1 + 2.0f * image_y_xp1 + image_yp1_xp1 - image_ym1_xm1 - 2.0f * image_y_xm1
        - image_yp1_xm1;
    // image[yp1 * W + x]: 5 sectors, ideal 4; 4.47 on average (starts 20 bytes into a sector)
    const float image_yp1_x = image[yp1 * W + x];
    // image[ym1 * W + x]: 5 sectors, ideal 4; 4.46 on average (starts 4 bytes into a sector)
    const float image_ym1_x = image[ym1 * W + x];
    const float gy = image_yp1_xm1 + 2.0f * image_yp1_x + image_yp1_xp1 - image_ym1_xm1 - 2.0f * image_ym1_x
        - image_ym1_xp1;
    // magnitude[y * W + x]: 5 sectors, ideal 4; 4.46 on average (starts 4 bytes into a sector)
    magnitude[y * W + x] = sqrtf(gx * gx + gy * gy);
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t sobel_launch(
    const float* image,
    float* magnitude,
    cudaStream_t stream)
{
    sobel<<<dim3((W + 31) / 32, (H + 7) / 8), dim3(32, 8), 0, stream>>>(image, magnitude);
    return cudaGetLastError();
}

#endif
