// blur_fused: Both passes of `blur_separable` in one launch; what lies between them stays
// in shared memory, pixel by pixel
//
// computes  rows[y, x] = sum(taps[s] * image[y, x + s - 2], s)
//           blurred[y, x] = sum(taps[r] * rows[y + r - 2, x], r)
// params    H = 150, W = 204
// image     input, float32 [150, 204], outside: clamp, aligned to 16 bytes
// taps      baked, float32 [5]
// rows      temporary, float32 [150, 204], shared, outside: clamp
// blurred   output, float32 [150, 204], aligned to 16 bytes
// launch    grid (2, 5, 1), block (32, 8, 1), 18432 bytes of shared memory; family fused_stencil
// bounds    15 of 15 accesses proved
// analysis  sm_90: 7 accesses, 4 ideal, 3 costly
//           worst: rows_tile[row][threadIdx.x * 4 + v], 2 wavefronts, ideal 1
//           (lanes 19 and 27: words 76 and 108, bank 12)
//
// Made by cugen 0.1.0 from blur_fused.yaml (hash 1e9471f4f9028c74) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   image[h * W + w]                                   1 sector, ideal 1 (uniform address)
//   rows_tile[row][threadIdx.x * 4]                    4 wavefronts, ideal 4 (128 words over 32 banks)
//   image[h * W + w_]                                  1 sector, ideal 1 (uniform address)
//   rows_tile[threadIdx.y * 4 + row][threadIdx.x * 4]  4 wavefronts, ideal 4 (128 words over 32 banks)

constexpr int H = 150;
constexpr int W = 204;

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

extern "C" __global__ void __launch_bounds__(256) blur_fused(
    const float* __restrict__ image,
    float* __restrict__ blurred)
{
    const float taps_values[5] = {0.0625f, 0.25f, 0.375f, 0.25f, 0.0625f};

    __shared__ __align__(16) float rows_tile[36][128];
    const int y_tile = blockIdx.y * 32 - 2;
    const int x_tile = blockIdx.x * 128;

    // intermediate tile with its halo, which adjacent blocks compute redundantly (overlapped tiling)
    for (int row = threadIdx.y; row < 36; row += 8) {
        const int x_first = x_tile + threadIdx.x * 4;
        const int h = min(max(y_tile + row, 0), H - 1);
        if (x_first + 4 <= W) {
            float image_window[12];
            const int x_left = x_first - 4;
            if (x_left >= 0 && x_left + 12 <= W) {
                #pragma unroll
                for (int column = 0; column < 12; column += 4) {
                    // image[h * W + x_left + column]: 10 sectors, ideal 9; 12.75 on average (misaligned by 16 bytes)
                    const auto image4 = load<4>(&image[h * W + x_left + column]);
                    #pragma unroll
                    for (int v_ = 0; v_ < 4; ++v_) {
                        image_window[column + v_] = image4.data[v_];
                    }
                }
            } else {
                #pragma unroll
                for (int column = 2; column < 10; ++column) {
                    const int w = min(max(x_left + column, 0), W - 1);
                    image_window[column] = image[h * W + w];
                }
            }
            Vector<float, 4> rows4;
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                float sum = 0.0f;
                #pragma unroll
                for (int s = 0; s < 5; ++s) {
                    const float taps_ = taps_values[s];
                    sum += taps_ * image_window[v + s + 2];
                }
                rows4.data[v] = sum;
            }
            store<4>(&rows_tile[row][threadIdx.x * 4], rows4);
        } else {
            #pragma unroll 1
            for (int v = 0; v < 4; ++v) {
                const int w = min(x_first + v, W - 1);
                float sum = 0.0f;
                #pragma unroll
                for (int s = 0; s < 5; ++s) {
                    const float taps_ = taps_values[s];
                    const int w_ = min(max(w + s - 2, 0), W - 1);
                    const float image_value = image[h * W + w_];
                    sum += taps_ * image_value;
                }
                // rows_tile[row][threadIdx.x * 4 + v]: 2 wavefronts, ideal 1
                // (lanes 19 and 27: words 76 and 108, bank 12)
                rows_tile[row][threadIdx.x * 4 + v] = sum;
            }
        }
    }
    __syncthreads();

    const int y0 = blockIdx.y * 32 + threadIdx.y * 4;
    const int x0 = blockIdx.x * 128 + threadIdx.x * 4;
    if (y0 >= H || x0 >= W)
        return;

    // register windows: what the thread's outputs read of the tile and of global memory
    float rows_window[8][4];
    #pragma unroll
    for (int row = 0; row < 8; ++row) {
        const auto rows4 = load<4>(&rows_tile[threadIdx.y * 4 + row][threadIdx.x * 4]);
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            rows_window[row][v] = rows4.data[v];
        }
    }

    #pragma unroll
    for (int row = 0; row < 4; ++row) {
        const int y = y0 + row;
        if (y < H) {
            Vector<float, 4> blurred4;
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                float sum = 0.0f;
                #pragma unroll
                for (int r = 0; r < 5; ++r) {
                    const float taps_ = taps_values[r];
                    sum += taps_ * rows_window[row + r][v];
                }
                blurred4.data[v] = sum;
            }
            // blurred[y * W + x0]: 17 sectors, ideal 16; 13.25 on average (misaligned by 16 bytes)
            store<4>(&blurred[y * W + x0], blurred4);
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t blur_fused_launch(
    const float* image,
    float* blurred,
    cudaStream_t stream)
{
    blur_fused<<<dim3((W + 127) / 128, (H + 31) / 32), dim3(32, 8), 0, stream>>>(image, blurred);
    return cudaGetLastError();
}

#endif
