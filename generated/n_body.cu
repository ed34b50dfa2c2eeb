// n_body: Accelerations of bodies in a plane by all others; each is a position and a mass, with a gap before the mass
//
// computes  a[i, 0] = sum(p[j, 3] * (p[j, 0] - p[i, 0]) * rsqrt((p[j, 0] - p[i, 0])**2 + (p[j, 1] - p[i, 1])**2 +
//           0.25)**3, j)
//           a[i, 1] = sum(p[j, 3] * (p[j, 1] - p[i, 1]) * rsqrt((p[j, 0] - p[i, 0])**2 + (p[j, 1] - p[i, 1])**2 +
//           0.25)**3, j)
// params    N = 1031
// p         input, float32 [1031, 4], aligned to 16 bytes
// a         output, float32 [1031, 2]
// launch    grid (129, 1, 1), block (8, 32, 1), 18432 bytes of shared memory; family staged
// bounds    13 of 13 accesses proved
// analysis  sm_90: 13 accesses, 9 ideal, 4 costly
//           worst: p[i * 4], 4 sectors, ideal 1 (lanes 16 bytes apart)
//
// Made by cugen 0.1.0 from n_body.yaml (hash de69da59cfb35586) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   p[position]                                 16 sectors, ideal 16 (512 contiguous bytes)
//   p_tile[vector][0]                           4 wavefronts, ideal 4 (128 words over 32 banks)
//   p_tile[slice_first + 32 * j_step][3]        1 wavefront, ideal 1 (conflict-free)
//   p_tile[slice_first + 32 * j_step][0]        1 wavefront, ideal 1 (conflict-free)
//   p_tile[slice_first + 32 * j_step][1]        1 wavefront, ideal 1 (conflict-free)
//   slices_of_a_sum[threadIdx.y][threadIdx.x]   1 wavefront, ideal 1 (conflict-free)
//   slices_of_a_sum_[threadIdx.y][threadIdx.x]  1 wavefront, ideal 1 (conflict-free)
//   slices_of_a_sum[slice][threadIdx.x]         1 wavefront, ideal 1 (conflict-free)
//   slices_of_a_sum_[slice][threadIdx.x]        1 wavefront, ideal 1 (conflict-free)

constexpr int N = 1031;

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

extern "C" __global__ void __launch_bounds__(256) n_body(
    const float* __restrict__ p,
    float* __restrict__ a)
{
    __shared__ __align__(16) float p_tile[1024][4];
    __shared__ float slices_of_a_sum[32][8];
    __shared__ float slices_of_a_sum_[32][8];

    const int i_thread = blockIdx.x * 8 + threadIdx.x;
    const int i = min(i_thread, N - 1);
    const int slice_first = threadIdx.y;

    // the block fills the next tiles, and each thread accumulates their terms
    float a_sum = 0.0f;
    float a_sum_ = 0.0f;
    // p[i * 4]: 4 sectors, ideal 1 (lanes 16 bytes apart)
    const float p_i_0 = p[i * 4];
    // p[i * 4 + 1]: 4 sectors, ideal 1 (lanes 16 bytes apart)
    const float p_i_1 = p[i * 4 + 1];
    for (int j_first = 0; j_first < N; j_first += 1024) {
        for (int vector = threadIdx.x + threadIdx.y * 8; vector < 1024; vector += 256) {
            const int position = 4 * j_first + 4 * vector;
            store<4>(&p_tile[vector][0], position < 4 * N ? load<4>(&p[position]) : Vector<float, 4>{});
        }
        __syncthreads();
        float a_partial_sum = 0.0f;
        float a_partial_sum_ = 0.0f;
        #pragma unroll 8
        for (int j_step = 0; j_step < min(32, (N + 31 - slice_first - j_first) / 32); ++j_step) {
            const float p_j_3 = p_tile[slice_first + 32 * j_step][3];
            const float p_j_0 = p_tile[slice_first + 32 * j_step][0];
            const float difference = p_j_0 - p_i_0;
            const float p_j_1 = p_tile[slice_first + 32 * j_step][1];
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

    // each row of threads has accumulated a slice of the terms; the first combines the results
    slices_of_a_sum[threadIdx.y][threadIdx.x] = a_sum;
    slices_of_a_sum_[threadIdx.y][threadIdx.x] = a_sum_;
    __syncthreads();
    if (threadIdx.y == 0) {
        if (i_thread < N) {
            #pragma unroll
            for (int slice = 1; slice < 32; ++slice) {
                a_sum += slices_of_a_sum[slice][threadIdx.x];
                a_sum_ += slices_of_a_sum_[slice][threadIdx.x];
            }
            // a[i * 2]: 2 sectors, ideal 1 (lanes 8 bytes apart)
            a[i * 2] = a_sum;
            // a[i * 2 + 1]: 2 sectors, ideal 1 (lanes 8 bytes apart)
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
    n_body<<<dim3((N + 7) / 8), dim3(8, 32), 0, stream>>>(p, a);
    return cudaGetLastError();
}

#endif
