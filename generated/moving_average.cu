// moving_average: The mean of the 63 samples round each one, of a signal that is mirrored at its ends
//
// computes  smooth[i] = mean(samples[i + r - 31], r)
// params    N = 10007
// samples   input, float32 [10007], shared, outside: reflect
// smooth    output, float32 [10007]
// launch    grid (20, 1, 1), block (256, 1, 1), 2296 bytes of shared memory; family staged
// bounds    4 of 4 accesses proved
// analysis  sm_90: 4 accesses, 3 ideal, 1 costly
//           worst: samples[n], 5 sectors, ideal 4; 4.94 on average (misaligned by 4 bytes)
//
// Made by cugen 0.1.0 from moving_average.yaml (hash e8033bd9a2101772) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   samples_tile[column]                                1 wavefront, ideal 1 (conflict-free)
//   samples_tile[threadIdx.x + THREADS_I * i_step + r]  1 wavefront, ideal 1 (conflict-free)
//   smooth[i]                                           4 sectors, ideal 4 (128 contiguous bytes)

constexpr int N = 10007;

#ifndef CUGEN_FLOOR_MOD_INT
#define CUGEN_FLOOR_MOD_INT
// Remainder of the floor division by a positive b: 0 .. b - 1.
__device__ __forceinline__ int floor_mod(int a, int b)
{
    const int remainder = a % b;
    return remainder < 0 ? remainder + b : remainder;
}
#endif

extern "C" __global__ void __launch_bounds__(256) moving_average(
    const float* __restrict__ samples,
    float* __restrict__ smooth)
{
    constexpr int BLOCK_I = 512, THREADS_I = 256, HALO_I = 31, TILE_I = 574;

    __shared__ __align__(16) float samples_tile[TILE_I];

    const int i_first = blockIdx.x * BLOCK_I - HALO_I;
    // the block fills the tiles
    for (int column = threadIdx.x; column < TILE_I; column += THREADS_I) {
        const int n_in_period = floor_mod(i_first + column, 2 * N - 2);
        const int n = min(n_in_period, 2 * N - n_in_period - 2);
        // samples[n]: 5 sectors, ideal 4; 4.94 on average (misaligned by 4 bytes)
        samples_tile[column] = samples[n];
    }
    __syncthreads();

    #pragma unroll
    for (int i_step = 0; i_step < 2; ++i_step) {
        const int i = blockIdx.x * BLOCK_I + threadIdx.x + THREADS_I * i_step;
        if (i < N) {
            float sum = 0.0f;
            for (int r = 0; r < 63; ++r) {
                sum += samples_tile[threadIdx.x + THREADS_I * i_step + r];
            }
            smooth[i] = sum / 63.0f;
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t moving_average_launch(
    const float* samples,
    float* smooth,
    cudaStream_t stream)
{
    moving_average<<<dim3((N + 511) / 512), dim3(256), 0, stream>>>(samples, smooth);
    return cudaGetLastError();
}

#endif
