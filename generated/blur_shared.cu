// blur_shared: The smoothed image of blur5x5; each block stages its tile of the image with a
// halo of 2 pixels in shared memory
//
// computes  blurred[y, x] = sum(taps[r, s] * image[y + r - 2, x + s - 2], r, s)
// params    H = 150, W = 201
// image     input, float32 [150, 201], shared, outside: clamp
// taps      baked, float32 [5, 5], constant
// blurred   output, float32 [150, 201]
// launch    grid (7, 19, 1), block (32, 8, 1), 1728 bytes of shared memory; family staged
// bounds    5 of 5 accesses proved
// analysis  sm_90: 5 accesses, 3 ideal, 2 costly
//           worst: image[h * W + w], 7 sectors, ideal 4; 5.07 on average (128 bytes in 2 runs)
//
// Made by cugen 0.1.0 from blur_shared.yaml (hash 1bf89d0e4b55b95f) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   image_tile[element / TILE_X][element % TILE_X]  1 wavefront, ideal 1 (conflict-free)
//   taps[r][s]                                      1 request, ideal 1 (uniform address)
//   image_tile[threadIdx.y + r][threadIdx.x + s]    1 wavefront, ideal 1 (conflict-free)

constexpr int H = 150;
constexpr int W = 201;

__constant__ float taps[5][5] = {
    {0.00390625f,   0.015625f,  0.0234375f,   0.015625f, 0.00390625f},
    {  0.015625f,     0.0625f,    0.09375f,     0.0625f,   0.015625f},
    { 0.0234375f,    0.09375f,   0.140625f,    0.09375f,  0.0234375f},
    {  0.015625f,     0.0625f,    0.09375f,     0.0625f,   0.015625f},
    {0.00390625f,   0.015625f,  0.0234375f,   0.015625f, 0.00390625f},
};

extern "C" __global__ void __launch_bounds__(256) blur_shared(
    const float* __restrict__ image,
    float* __restrict__ blurred)
{
    constexpr int BLOCK_X = 32, BLOCK_Y = 8, HALO_Y = 2, TILE_Y = 12, HALO_X = 2, TILE_X = 36;

    __shared__ __align__(16) float image_tile[TILE_Y][TILE_X];

    const int y_first = blockIdx.y * BLOCK_Y - HALO_Y;
    const int x_first = blockIdx.x * BLOCK_X - HALO_X;
    // the block fills the tiles
    for (int element = threadIdx.x + threadIdx.y * BLOCK_X; element < TILE_X * TILE_Y; element += BLOCK_X * BLOCK_Y) {
        const int h = min(max(y_first + element / TILE_X, 0), H - 1);
        const int w = min(max(x_first + element % TILE_X, 0), W - 1);
        // image[h * W + w]: 7 sectors, ideal 4; 5.07 on average (128 bytes in 2 runs)
        image_tile[element / TILE_X][element % TILE_X] = image[h * W + w];
    }
    __syncthreads();

    const int y = blockIdx.y * BLOCK_Y + threadIdx.y;
    const int x = blockIdx.x * BLOCK_X + threadIdx.x;
    if (y >= H || x >= W)
        return;
    float sum = 0.0f;
    for (int r = 0; r < 5; ++r) {
        for (int s = 0; s < 5; ++s) {
            const float taps_r_s = taps[r][s];
            const float image_value = image_tile[threadIdx.y + r][threadIdx.x + s];
            sum += taps_r_s * image_value;
        }
    }
    // blurred[y * W + x]: 5 sectors, ideal 4; 4.46 on average (misaligned by 4 bytes)
    blurred[y * W + x] = sum;
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t blur_shared_launch(
    const float* image,
    float* blurred,
    cudaStream_t stream)
{
    blur_shared<<<dim3((W + 31) / 32, (H + 7) / 8), dim3(32, 8), 0, stream>>>(image, blurred);
    return cudaGetLastError();
}

#endif
