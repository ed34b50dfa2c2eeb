// histogram: How many values fall into each of 200 bins
//
// computes               bin[i] = cast(x[i] * 100, int32) + 100
//                        count[b] = sum(bin[i] == b, i)
// params                 N = 1000003
// x                      input, float32 [1000003], aligned to 16 bytes
// count                  output, int32 [200], aligned to 16 bytes
// histogram_count_parts  grid (230, 1, 1), block (512, 1, 1), 1664 bytes of shared memory; family histogram
// histogram_count        grid (2, 1, 1), block (32, 16, 1), 8192 bytes of shared memory; family reduce
// bounds                 11 of 11 accesses proved
// analysis               sm_90: 11 accesses, 9 ideal, 2 unknown
//
// Made by cugen 0.1.0 from histogram.yaml (hash d9668b392c51185a) for sm_90. Edit the spec, not this file.
//
// Ideal accesses of histogram_count_parts, without a remark in the code:
//   bins[c][counter]             1 wavefront, ideal 1 (conflict-free)
//   x[4352 * part + i]           16 sectors, ideal 16 (512 contiguous bytes)
//   x[4352 * part + tail]        1 sector, ideal 1 (12 contiguous bytes)
//   bins[c][b]                   1 wavefront, ideal 1 (conflict-free)
//   count_parts[part * 200 + b]  4 sectors, ideal 4 (128 contiguous bytes)
//
// Ideal accesses of histogram_count, without a remark in the code:
//   count_parts[part * 200 + first_b]          16 sectors, ideal 16 (512 contiguous bytes)
//   sum_partials[v][threadIdx.y][threadIdx.x]  1 wavefront, ideal 1 (conflict-free)
//   sum_partials[v][row][threadIdx.x]          1 wavefront, ideal 1 (conflict-free)
//   count[first_b]                             16 sectors, ideal 16 (512 contiguous bytes)

constexpr int N = 1000003;

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

#ifndef CUGEN_WRAPPING_ADD_INT
#define CUGEN_WRAPPING_ADD_INT
// a + b modulo 2^32: signed overflow is undefined in C++.
__device__ __forceinline__ int wrapping_add(int a, int b)
{
    return (int)((unsigned int)a + (unsigned int)b);
}
#endif

extern "C" __global__ void __launch_bounds__(512) histogram_count_parts(
    const float* __restrict__ x,
    int* __restrict__ count_parts)
{
    __shared__ unsigned int bins[2][208];
    const int part = blockIdx.x;
    const int replica = threadIdx.x % 2;

    for (int counter = threadIdx.x; counter < 200; counter += 512) {
        #pragma unroll
        for (int c = 0; c < 2; ++c) {
            bins[c][counter] = 0U;
        }
    }
    __syncthreads();

    const int stop = min(4352, N - 4352 * part);
    #pragma unroll 2
    for (int i = threadIdx.x * 4; i < stop - 3; i += 2048) {
        const auto x4 = load<4>(&x[4352 * part + i]);
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            const float x_value = x4.data[v];
            const int key = wrapping_add(__float2int_rz(x_value * 100.0f), 100);
            if (key >= 0 && key < 200) {
                // bins[replica][key]: unknown: whether it runs depends on data
                atomicAdd(&bins[replica][key], 1U);
            }
        }
    }
    for (int tail = threadIdx.x + 4 * (stop / 4); tail < stop; tail += 512) {
        const float x_value = x[4352 * part + tail];
        const int key = wrapping_add(__float2int_rz(x_value * 100.0f), 100);
        if (key >= 0 && key < 200) {
            // bins[replica][key]: unknown: whether it runs depends on data
            atomicAdd(&bins[replica][key], 1U);
        }
    }
    __syncthreads();

    for (int b = threadIdx.x; b < 200; b += 512) {
        unsigned int total = 0U;
        #pragma unroll
        for (int c = 0; c < 2; ++c) {
            total += bins[c][b];
        }
        count_parts[part * 200 + b] = (int)total;
    }
}

extern "C" __global__ void __launch_bounds__(512) histogram_count(
    int* __restrict__ count,
    const int* __restrict__ count_parts)
{
    const int first_b = blockIdx.x * 128 + threadIdx.x * 4;

    Vector<int, 4> sum4 = {};
    if (first_b < 200) {
        #pragma unroll 4
        for (int part = threadIdx.y; part < 230; part += 16) {
            const auto count_parts4 = load<4>(&count_parts[part * 200 + first_b]);
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                sum4.data[v] = wrapping_add(sum4.data[v], count_parts4.data[v]);
            }
        }
    }

    // block reduction over threadIdx.y through shared memory, in a fixed order
    __shared__ int sum_partials[4][16][32];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        sum_partials[v][threadIdx.y][threadIdx.x] = sum4.data[v];
    }
    __syncthreads();
    if (threadIdx.y != 0 || first_b >= 200)
        return;
    for (int row = 1; row < 16; ++row) {
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            sum4.data[v] = wrapping_add(sum4.data[v], sum_partials[v][row][threadIdx.x]);
        }
    }

    store<4>(&count[first_b], sum4);
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" size_t histogram_workspace_bytes(void)
{
    return 184064;
}

extern "C" cudaError_t histogram_launch(
    const float* x,
    int* count,
    void* workspace,
    cudaStream_t stream)
{
    cudaError_t status = cudaSuccess;
    const bool allocates = workspace == nullptr;
    if (allocates)
        status = cudaMallocAsync(&workspace, histogram_workspace_bytes(), stream);
    if (status != cudaSuccess)
        return status;
    int* const count_parts = static_cast<int*>(workspace);
    histogram_count_parts<<<dim3(230), dim3(512), 0, stream>>>(x, count_parts);
    histogram_count<<<dim3(2), dim3(32, 16), 0, stream>>>(count, count_parts);
    if (allocates)
        cudaFreeAsync(workspace, stream);
    return cudaGetLastError();
}

#endif
