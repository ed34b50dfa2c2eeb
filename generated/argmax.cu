// argmax: Where each row is greatest; the first place of several, and a NaN before all
//
// computes  best[i] = argmax(x[i, j], j)
// params    M = 200, N = 333
// x         input, float32 [200, 333], aligned to 16 bytes
// best      output, int64 [200]
// launch    grid (200, 1, 1), block (128, 1, 1), 48 bytes of shared memory; family reduce
// bounds    8 of 8 accesses proved
// analysis  sm_90: 8 accesses, 7 ideal, 1 costly
//           worst: x[i * N + first_j], 17 sectors, ideal 16; 14.25 on average (misaligned by 16 bytes)
//
// Made by cugen 0.1.0 from argmax.yaml (hash fc56195d3d6c3d61) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   x[i * N + head]                 1 sector, ideal 1 (12 contiguous bytes)
//   x[i * N + tail]                 1 sector, ideal 1 (uniform address)
//   warp_argmax_[threadIdx.x / 32]  1 wavefront, ideal 1 (conflict-free)
//   warp_largest[threadIdx.x / 32]  1 wavefront, ideal 1 (one word: broadcast)
//   warp_argmax_[threadIdx.x % 4]   2 wavefronts, ideal 2 (conflict-free)
//   warp_largest[threadIdx.x % 4]   1 wavefront, ideal 1 (conflict-free)
//   best[i]                         1 sector, ideal 1 (uniform address)

#include <math_constants.h>

constexpr int N = 333;

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

extern "C" __global__ void __launch_bounds__(128) argmax(
    const float* __restrict__ x,
    long long* __restrict__ best)
{
    const int i = blockIdx.x;

    long long argmax_ = -1;
    float largest = -CUDART_INF_F;
    const int first = (4 - N * i % 4) % 4;
    for (int head = threadIdx.x; head < min(first, N); head += 128) {
        const float x_i_j = x[i * N + head];
        if (argmax_ < 0 || x_i_j > largest || (x_i_j != x_i_j && largest == largest)) {
            largest = x_i_j;
            argmax_ = head;
        }
    }
    for (int first_j = first + threadIdx.x * 4; first_j < N - 3; first_j += 512) {
        // x[i * N + first_j]: 17 sectors, ideal 16; 14.25 on average (misaligned by 16 bytes)
        const auto x4 = load<4>(&x[i * N + first_j]);
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            const int j = first_j + v;
            if (argmax_ < 0 || x4.data[v] > largest || (x4.data[v] != x4.data[v] && largest == largest)) {
                largest = x4.data[v];
                argmax_ = j;
            }
        }
    }
    for (int tail = first + threadIdx.x + 4 * ((N - first) / 4); tail < N; tail += 128) {
        const float x_i_j = x[i * N + tail];
        if (argmax_ < 0 || x_i_j > largest || (x_i_j != x_i_j && largest == largest)) {
            largest = x_i_j;
            argmax_ = tail;
        }
    }

    // block reduction: warp shuffles, then shared memory between warps
    #pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        const long long other_argmax_ = __shfl_xor_sync(0xffffffff, argmax_, lanes);
        const float other_largest = __shfl_xor_sync(0xffffffff, largest, lanes);
        if (other_argmax_ >= 0
            && (argmax_ < 0 || other_largest > largest || (other_largest != other_largest && largest == largest)
                || ((other_largest == largest || (other_largest != other_largest && largest != largest))
                    && other_argmax_ < argmax_))) {
            argmax_ = other_argmax_;
            largest = other_largest;
        }
    }
    __shared__ long long warp_argmax_[4];
    __shared__ float warp_largest[4];
    if (threadIdx.x % 32 == 0) {
        warp_argmax_[threadIdx.x / 32] = argmax_;
        warp_largest[threadIdx.x / 32] = largest;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        argmax_ = warp_argmax_[threadIdx.x % 4];
        largest = warp_largest[threadIdx.x % 4];
        #pragma unroll
        for (int lanes = 2; lanes > 0; lanes /= 2) {
            const long long other_argmax_ = __shfl_xor_sync(0xffffffff, argmax_, lanes);
            const float other_largest = __shfl_xor_sync(0xffffffff, largest, lanes);
            if (other_argmax_ >= 0
                && (argmax_ < 0 || other_largest > largest || (other_largest != other_largest && largest == largest)
                    || ((other_largest == largest || (other_largest != other_largest && largest != largest))
                        && other_argmax_ < argmax_))) {
                argmax_ = other_argmax_;
                largest = other_largest;
            }
        }
    }

    if (threadIdx.x != 0)
        return;
    best[i] = argmax_;
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int M = 200;

extern "C" cudaError_t argmax_launch(
    const float* x,
    long long* best,
    cudaStream_t stream)
{
    argmax<<<dim3(M), dim3(128), 0, stream>>>(x, best);
    return cudaGetLastError();
}

#endif
