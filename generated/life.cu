// life: A step of Conway's game of life on a torus; a cell lives where its lowest bit is set
//
// computes  n[i, j] = sum(before[i + r - 1, j + s - 1] & 1, r, s) - (before[i, j] & 1)
//           after[i, j] = where(n[i, j] == 3 or (n[i, j] == 2 and before[i, j] & 1), 1, 0)
// params    H = 61, W = 100
// before    input, uint8 [61, 100], outside: wrap, aligned to 4 bytes
// after     output, uint8 [61, 100], aligned to 4 bytes
// launch    grid (1, 16, 1), block (32, 4, 1); family stencil
// bounds    9 of 9 accesses proved
// analysis  sm_90: 4 accesses, 2 ideal, 2 costly
//           worst: before[h * W + j0m1], 4 sectors, ideal 1 (lanes 4 bytes apart)
//
// Made by cugen 0.1.0 from life.yaml (hash 28da8769c6753fe2) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   before[h * W + j0]  4 sectors, ideal 4 (100 contiguous bytes)
//   after[i * W + j0]   4 sectors, ideal 4 (100 contiguous bytes)

constexpr int H = 61;
constexpr int W = 100;

#ifndef CUGEN_VECTOR
#define CUGEN_VECTOR
// `count` elements, moved by one vector access.
template <typename T, int count>
struct alignas(count * sizeof(T)) Vector {
    T data[count];
};
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

extern "C" __global__ void __launch_bounds__(128) life(
    const unsigned char* __restrict__ before,
    unsigned char* __restrict__ after)
{
    const int i = blockIdx.y * 4 + threadIdx.y;
    const int j0 = blockIdx.x * 128 + threadIdx.x * 4;
    if (i >= H || j0 >= W)
        return;

    // register windows: what the thread's outputs read
    unsigned char before_window[3][6];
    const int j0m1 = floor_mod(j0 - 1, W);
    const int j0p4 = (j0 + 4) % W;
    #pragma unroll
    for (int row = 0; row < 3; ++row) {
        const int h = floor_mod(i + row - 1, H);
        const auto before4 = load<4>(&before[h * W + j0]);
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            before_window[row][v + 1] = before4.data[v];
        }
        // before[h * W + j0m1]: 4 sectors, ideal 1 (lanes 4 bytes apart)
        before_window[row][0] = before[h * W + j0m1];
        // before[h * W + j0p4]: 4 sectors, ideal 1 (lanes 4 bytes apart)
        before_window[row][5] = before[h * W + j0p4];
    }

    Vector<unsigned char, 4> after4;
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        int sum = 0;
        #pragma unroll
        for (int r = 0; r < 3; ++r) {
            #pragma unroll
            for (int s = 0; s < 3; ++s) {
                sum += before_window[r][v + s] & 1;
            }
        }
        const unsigned char bitand_value = before_window[1][v + 1] & 1;
        const int n = sum - bitand_value;
        after4.data[v] = (unsigned char)(n == 3 || (n == 2 && bitand_value != 0) ? 1 : 0);
    }
    store<4>(&after[i * W + j0], after4);
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t life_launch(
    const unsigned char* before,
    unsigned char* after,
    cudaStream_t stream)
{
    life<<<dim3((W + 127) / 128, (H + 3) / 4), dim3(32, 4), 0, stream>>>(before, after);
    return cudaGetLastError();
}

#endif
