// full_sum: The sum of all elements
//
// computes              total = sum(x[i], i)
// params                N = 100003
// x                     input, float32 [100003], aligned to 16 bytes
// total                 output, float32 []
// full_sum_total_parts  grid (23, 1, 1), block (1024, 1, 1), 256 bytes of shared memory; family reduce
// full_sum_total        grid (1, 1, 1), block (4, 1, 1); family reduce
// bounds                9 of 9 accesses proved
// analysis              sm_90: 9 accesses, 9 ideal
//
// Made by cugen 0.1.0 from full_sum.yaml (hash 64b8169916d00d7e) for sm_90. Edit the spec, not this file.
//
// Ideal accesses of full_sum_total_parts, without a remark in the code:
//   x[start + i]                16 sectors, ideal 16 (512 contiguous bytes)
//   x[start + tail]             1 sector, ideal 1 (12 contiguous bytes)
//   warp_sum[threadIdx.x / 32]  1 wavefront, ideal 1 (conflict-free)
//   warp_sum[threadIdx.x]       2 wavefronts, ideal 2 (64 words over 32 banks)
//   total_parts[part]           1 sector, ideal 1 (uniform address)
//
// Ideal accesses of full_sum_total, without a remark in the code:
//   total_parts[edge]       1 sector, ideal 1 (uniform address)
//   total_parts[part]       2 sectors, ideal 2 (64 contiguous bytes)
//   total_parts[last_part]  2 sectors, ideal 2 (48 contiguous bytes)
//   total[0]                1 sector, ideal 1 (uniform address)

constexpr int N = 100003;

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

extern "C" __global__ void __launch_bounds__(1024) full_sum_total_parts(
    const float* __restrict__ x,
    double* __restrict__ total_parts)
{
    const int part = blockIdx.x;
    const int start = 4352 * part;

    double sum = 0.0;
    const int stop = min(4352, N - start);
    #pragma unroll 2
    for (int i = threadIdx.x * 4; i < stop - 3; i += 4096) {
        const auto x4 = load<4>(&x[start + i]);
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            sum += (double)x4.data[v];
        }
    }
    for (int tail = threadIdx.x + 4 * (stop / 4); tail < stop; tail += 1024) {
        const float x_value = x[start + tail];
        sum += (double)x_value;
    }

    // block reduction: warp shuffles, then shared memory between warps
    #pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, lanes);
    }
    __shared__ double warp_sum[32];
    if (threadIdx.x % 32 == 0) {
        warp_sum[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = warp_sum[threadIdx.x];
        #pragma unroll
        for (int lanes = 16; lanes > 0; lanes /= 2) {
            sum += __shfl_xor_sync(0xffffffff, sum, lanes);
        }
    }

    if (threadIdx.x != 0)
        return;
    total_parts[part] = sum;
}

extern "C" __global__ void __launch_bounds__(4) full_sum_total(
    float* __restrict__ total,
    const double* __restrict__ total_parts)
{
    double sum = 0.0;
    const int edge = threadIdx.x + 22;
    if (edge < 23) {
        const double total_parts_part = total_parts[edge];
        sum += total_parts_part;
    }
    #pragma unroll
    for (int u = 0; u < 2; ++u) {
        const int part = threadIdx.x * 2 + 8 * u;
        const auto total_parts2 = load<2>(&total_parts[part]);
        #pragma unroll
        for (int v = 0; v < 2; ++v) {
            sum += total_parts2.data[v];
        }
    }
    const int last_part = threadIdx.x * 2 + 16;
    if (last_part + 1 < 23) {
        const auto total_parts2 = load<2>(&total_parts[last_part]);
        #pragma unroll
        for (int v = 0; v < 2; ++v) {
            sum += total_parts2.data[v];
        }
    }

    // reduction by warp shuffles: every lane gets the result
    #pragma unroll
    for (int lanes = 2; lanes > 0; lanes /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, lanes);
    }

    if (threadIdx.x != 0)
        return;
    total[0] = (float)sum;
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" size_t full_sum_workspace_bytes(void)
{
    return 256;
}

extern "C" cudaError_t full_sum_launch(
    const float* x,
    float* total,
    void* workspace,
    cudaStream_t stream)
{
    cudaError_t status = cudaSuccess;
    const bool allocates = workspace == nullptr;
    if (allocates)
        status = cudaMallocAsync(&workspace, full_sum_workspace_bytes(), stream);
    if (status != cudaSuccess)
        return status;
    double* const total_parts = static_cast<double*>(workspace);
    full_sum_total_parts<<<dim3(23), dim3(1024), 0, stream>>>(x, total_parts);
    full_sum_total<<<dim3(1), dim3(4), 0, stream>>>(total, total_parts);
    if (allocates)
        cudaFreeAsync(workspace, stream);
    return cudaGetLastError();
}

#endif
