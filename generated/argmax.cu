// argmax: Where each row is greatest; the first place of several, and a NaN before all
//
// computes  best[i] = argmax(x[i, j], j)
// params    M = 200, N = 333
// x         input, float32 [200, 333]
// best      output, int64 [200]
// launch    grid (200, 1, 1), block (512, 1, 1), 192 bytes of shared memory; family reduce
// analysis  sm_90: 6 accesses, 5 ideal, 1 costly
//           worst: x[i * N + j], 5 sectors, ideal 4; 4.66 on average (misaligned by 20 bytes)
//
// Made by cugen 0.1.0 from argmax.yaml (hash fc56195d3d6c3d61) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   warp_argmax_[threadIdx.x / 32]  1 wavefront, ideal 1 (conflict-free)
//   warp_largest[threadIdx.x / 32]  1 wavefront, ideal 1 (one word: broadcast)
//   warp_argmax_[threadIdx.x % 16]  2 wavefronts, ideal 2 (conflict-free)
//   warp_largest[threadIdx.x % 16]  1 wavefront, ideal 1 (conflict-free)
//   best[i]                         1 sector, ideal 1 (uniform address)

#include <math_constants.h>

constexpr int N = 333;

extern "C" __global__ void __launch_bounds__(512) argmax(
    const float* __restrict__ x,
    long long* __restrict__ best)
{
    const int i = blockIdx.x;

    long long argmax_ = -1;
    float largest = -CUDART_INF_F;
    for (int j = threadIdx.x; j < N; j += 512) {
        // x[i * N + j]: 5 sectors, ideal 4; 4.66 on average (misaligned by 20 bytes)
        const float x_i_j = x[i * N + j];
        if (argmax_ < 0 || x_i_j > largest || (x_i_j != x_i_j && largest == largest)) {
            largest = x_i_j;
            argmax_ = j;
        }
    }

    // Block reduction: warp shuffles, then shared memory between warps.
    #pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        const long long other_argmax_ = __shfl_xor_sync(0xffffffff, argmax_, lanes);
        const float other_largest = __shfl_xor_sync(0xffffffff, largest, lanes);
        if (other_argmax_ >= 0
            && (argmax_ < 0 || other_largest > largest || (other_largest != other_largest && !(largest != largest))
            || ((other_largest == largest || (other_largest != other_largest && largest != largest))
            && other_argmax_ < argmax_))) {
            argmax_ = other_argmax_;
            largest = other_largest;
        }
    }
    __shared__ long long warp_argmax_[16];
    __shared__ float warp_largest[16];
    if (threadIdx.x % 32 == 0) {
        warp_argmax_[threadIdx.x / 32] = argmax_;
        warp_largest[threadIdx.x / 32] = largest;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        argmax_ = warp_argmax_[threadIdx.x % 16];
        largest = warp_largest[threadIdx.x % 16];
        #pragma unroll
        for (int lanes = 8; lanes > 0; lanes /= 2) {
            const long long other_argmax_ = __shfl_xor_sync(0xffffffff, argmax_, lanes);
            const float other_largest = __shfl_xor_sync(0xffffffff, largest, lanes);
            if (other_argmax_ >= 0
                && (argmax_ < 0 || other_largest > largest || (other_largest != other_largest && !(largest != largest))
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
    argmax<<<dim3(M), dim3(512), 0, stream>>>(x, best);
    return cudaGetLastError();
}

#endif
