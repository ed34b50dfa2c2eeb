// n_body: Accelerations of bodies in a plane by all others; each is a position and a mass, with a gap before the mass
//
// computes  a[i, 0] = sum(p[j, 3] * (p[j, 0] - p[i, 0]) * rsqrt((p[j, 0] - p[i, 0])**2 + (p[j, 1] - p[i, 1])**2 +
//           0.25)**3, j)
//           a[i, 1] = sum(p[j, 3] * (p[j, 1] - p[i, 1]) * rsqrt((p[j, 0] - p[i, 0])**2 + (p[j, 1] - p[i, 1])**2 +
//           0.25)**3, j)
// params    N = 1031
// p         input, float32 [1031, 4]
// a         output, float32 [1031, 2]
// launch    grid (33, 1, 1), block (32, 8, 1), 6144 bytes of shared memory; family staged
// analysis  sm_90: 13 accesses, 9 ideal, 4 costly
//           worst: p[i * 4], 16 sectors, ideal 4; 15.64 on average (lanes 16 bytes apart)
//
// Made by cugen 0.1.0 from n_body.yaml (hash de69da59cfb35586) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   p[position]                                 4 sectors, ideal 4 (128 contiguous bytes)
//   p_tile[element / 4][element % 4]            1 wavefront, ideal 1 (conflict-free)
//   p_tile[threadIdx.y * 32 + j_step][3]        1 wavefront, ideal 1 (one word: broadcast)
//   p_tile[threadIdx.y * 32 + j_step][0]        1 wavefront, ideal 1 (one word: broadcast)
//   p_tile[threadIdx.y * 32 + j_step][1]        1 wavefront, ideal 1 (one word: broadcast)
//   slices_of_a_sum[threadIdx.y][threadIdx.x]   1 wavefront, ideal 1 (conflict-free)
//   slices_of_a_sum_[threadIdx.y][threadIdx.x]  1 wavefront, ideal 1 (conflict-free)
//   slices_of_a_sum[slice][threadIdx.x]         1 wavefront, ideal 1 (conflict-free)
//   slices_of_a_sum_[slice][threadIdx.x]        1 wavefront, ideal 1 (conflict-free)

constexpr int N = 1031;

extern "C" __global__ void __launch_bounds__(256) n_body(
    const float* __restrict__ p,
    float* __restrict__ a)
{
    __shared__ __align__(16) float p_tile[256][4];
    __shared__ float slices_of_a_sum[8][32];
    __shared__ float slices_of_a_sum_[8][32];

    const int i_thread = blockIdx.x * 32 + threadIdx.x;
    const int i = min(i_thread, N - 1);

    // The block fills the next tiles, and each thread accumulates their terms.
    float a_sum = 0.0f;
    float a_sum_ = 0.0f;
    // p[i * 4]: 16 sectors, ideal 4; 15.64 on average (lanes 16 bytes apart)
    const float p_i_0 = p[i * 4];
    // p[i * 4 + 1]: 16 sectors, ideal 4; 15.64 on average (lanes 16 bytes apart)
    const float p_i_1 = p[i * 4 + 1];
    for (int j_first = 0; j_first < N; j_first += 256) {
        for (int element = threadIdx.x + threadIdx.y * 32; element < 1024; element += 256) {
            const int position = 4 * j_first + element;
            p_tile[element / 4][element % 4] = position < 4 * N ? p[position] : 0.0f;
        }
        __syncthreads();
        float a_partial_sum = 0.0f;
        float a_partial_sum_ = 0.0f;
        #pragma unroll 8
        for (int j_step = 0; j_step < min(32, N - (int)threadIdx.y * 32 - j_first); ++j_step) {
            const float p_j_3 = p_tile[threadIdx.y * 32 + j_step][3];
            const float p_j_0 = p_tile[threadIdx.y * 32 + j_step][0];
            const float difference = p_j_0 - p_i_0;
            const float p_j_1 = p_tile[threadIdx.y * 32 + j_step][1];
            const float difference_ = p_j_1 - p_i_1;
            const float rsqrt_value = rsqrtf(difference * difference + difference_ * difference_ + 0.25f);
            const float power = rsqrt_value * rsqrt_value * rsqrt_value;
            a_partial_sum += p_j_3 * difference * power;
            a_partial_sum_ += p_j_3 * difference_ * power;
        }
        a_sum += a_partial_sum;
        a_sum_ += a_partial_sum_;
        __syncthreads();
    }

    // Each row of threads has accumulated a slice of the terms; the first combines the results.
    slices_of_a_sum[threadIdx.y][threadIdx.x] = a_sum;
    slices_of_a_sum_[threadIdx.y][threadIdx.x] = a_sum_;
    __syncthreads();
    if (threadIdx.y == 0) {
        if (i_thread < N) {
            #pragma unroll
            for (int slice = 1; slice < 8; ++slice) {
                a_sum += slices_of_a_sum[slice][threadIdx.x];
                a_sum_ += slices_of_a_sum_[slice][threadIdx.x];
            }
            // a[i * 2]: 8 sectors, ideal 4; 7.82 on average (lanes 8 bytes apart)
            a[i * 2] = a_sum;
            // a[i * 2 + 1]: 8 sectors, ideal 4; 7.82 on average (lanes 8 bytes apart)
            a[i * 2 + 1] = a_sum_;
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t n_body_launch(
    const float* p,
    float* a,
    cudaStream_t stream)
{
    n_body<<<dim3((N + 31) / 32), dim3(32, 8), 0, stream>>>(p, a);
    return cudaGetLastError();
}

#endif
