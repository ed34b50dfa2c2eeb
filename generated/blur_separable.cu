// blur_separable: The filter of `blur5x5` as a pass over rows and one over columns; 10
// taps for each pixel in place of 25
//
// computes                rows[y, x] = sum(taps[s] * image[y, x + s - 2], s)
//                         blurred[y, x] = sum(taps[r] * rows[y + r - 2, x], r)
// params                  H = 150, W = 201
// image                   input, float32 [150, 201], outside: clamp
// taps                    baked, float32 [5], constant, since all reads are uniform
// rows                    temporary, float32 [150, 201], scratch, outside: clamp
// blurred                 output, float32 [150, 201]
// blur_separable_rows     grid (7, 19, 1), block (32, 8, 1), 1152 bytes of shared memory; family staged
// blur_separable_blurred  grid (7, 38, 1), block (32, 4, 1); family stencil
// bounds                  10 of 10 accesses proved
// analysis                sm_90: 7 accesses, 3 ideal, 4 costly
//                         worst: image[h * W + w], 2 sectors, ideal 1; 2.89 on average (misaligned by 24 bytes)
//
// Made by cugen 0.1.0 from blur_separable.yaml (hash c1bedccbd0e827f5) for sm_90. Edit the spec, not this file.
//
// Ideal accesses of blur_separable_rows, without a remark in the code:
//   image_tile[threadIdx.y][column]           1 wavefront, ideal 1 (conflict-free)
//   taps[s]                                   1 request, ideal 1 (uniform address)
//   image_tile[threadIdx.y][threadIdx.x + s]  1 wavefront, ideal 1 (conflict-free)

constexpr int H = 150;
constexpr int W = 201;

__constant__ float taps[5] = {0.0625f, 0.25f, 0.375f, 0.25f, 0.0625f};

extern "C" __global__ void __launch_bounds__(256) blur_separable_rows(
    const float* __restrict__ image,
    float* __restrict__ rows)
{
    constexpr int BLOCK_X = 32, BLOCK_Y = 8, TILE_Y = 8, HALO_X = 2, TILE_X = 36;

    __shared__ __align__(16) float image_tile[TILE_Y][TILE_X];

    const int y_first = blockIdx.y * BLOCK_Y;
    const int x_first = blockIdx.x * BLOCK_X - HALO_X;
    // the block fills the tiles
    for (int column = threadIdx.x; column < TILE_X; column += BLOCK_X) {
        const int h = min(y_first + threadIdx.y, H - 1);
        const int w = min(max(x_first + column, 0), W - 1);
        // image[h * W + w]: 2 sectors, ideal 1; 2.89 on average (misaligned by 24 bytes)
        image_tile[threadIdx.y][column] = image[h * W + w];
    }
    __syncthreads();

    const int y = blockIdx.y * BLOCK_Y + threadIdx.y;
    const int x = blockIdx.x * BLOCK_X + threadIdx.x;
    if (y >= H || x >= W)
        return;
    float sum = 0.0f;
    for (int s = 0; s < 5; ++s) {
        const float taps_s = taps[s];
        const float image_value = image_tile[threadIdx.y][threadIdx.x + s];
        sum += taps_s * image_value;
    }
    // rows[y * W + x]: 5 sectors, ideal 4; 4.46 on average (misaligned by 4 bytes)
    rows[y * W + x] = sum;
}

extern "C" __global__ void __launch_bounds__(128) blur_separable_blurred(
    const float* __restrict__ rows,
    float* __restrict__ blurred)
{
    const float taps_values[5] = {0.0625f, 0.25f, 0.375f, 0.25f, 0.0625f};

    const int y = blockIdx.y * 4 + threadIdx.y;
    const int x = blockIdx.x * 32 + threadIdx.x;
    if (y >= H || x >= W)
        return;

    // register windows: what the thread's outputs read
    float rows_window[5];
    #pragma unroll
    for (int row = 0; row < 5; ++row) {
        const int h = min(max(y + row - 2, 0), H - 1);
        // rows[h * W + x]: 5 sectors, ideal 4; 4.46 on average (misaligned by 20 bytes)
        rows_window[row] = rows[h * W + x];
    }

    float sum = 0.0f;
    #pragma unroll
    for (int r = 0; r < 5; ++r) {
        const float taps_ = taps_values[r];
        sum += taps_ * rows_window[r];
    }
    // blurred[y * W + x]: 5 sectors, ideal 4; 4.46 on average (misaligned by 16 bytes)
    blurred[y * W + x] = sum;
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" size_t blur_separable_workspace_bytes(void)
{
    return 256 * ((4 * H * W + 255) / 256);
}

extern "C" cudaError_t blur_separable_launch(
    const float* image,
    float* blurred,
    void* workspace,
    cudaStream_t stream)
{
    cudaError_t status = cudaSuccess;
    const bool allocates = workspace == nullptr;
    if (allocates)
        status = cudaMallocAsync(&workspace, blur_separable_workspace_bytes(), stream);
    if (status != cudaSuccess)
        return status;
    float* const rows = static_cast<float*>(workspace);
    blur_separable_rows<<<dim3((W + 31) / 32, (H + 7) / 8), dim3(32, 8), 0, stream>>>(image, rows);
    blur_separable_blurred<<<dim3((W + 31) / 32, (H + 3) / 4), dim3(32, 4), 0, stream>>>(rows, blurred);
    if (allocates)
        cudaFreeAsync(workspace, stream);
    return cudaGetLastError();
}

#endif
