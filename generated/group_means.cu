// group_means: The mean of the values with each key; every thread adds to sums of its own, one for each key
//
// computes                 count[g] = sum(key[n] == g, n)
//                          mean[g] = sum(x[n], n, where=key[n] == g) / cast(maximum(count[g], 1), float32)
// params                   N = 200003, G = 40
// key                      input, uint8 [200003]
// x                        input, float32 [200003]
// mean                     output, float32 [40]
// group_means_count_parts  grid (2, 385, 1), block (32, 8, 1); family direct
// group_means_count        grid (2, 1, 1), block (8, 128, 1), 16384 bytes of shared memory; family reduce
// group_means_mean_parts   grid (2, 1, 23), block (512, 1, 1), 40960 bytes of shared memory; family grouped
// group_means_mean         grid (1, 1, 1), block (64, 2, 1), 512 bytes of shared memory; family rowwise
// bounds                   28 of 28 accesses proved
// analysis                 sm_90: 24 accesses, 20 ideal, 4 unknown
//
// Made by cugen 0.1.0 from group_means.yaml (hash 533bb1ed07e94cf3) for sm_90. Edit the spec, not this file.
//
// Ideal accesses of group_means_count_parts, without a remark in the code:
//   key[65 * part + n]         1 sector, ideal 1 (uniform address)
//   count_parts[part * G + g]  4 sectors, ideal 4 (128 contiguous bytes)
//
// Ideal accesses of group_means_count, without a remark in the code:
//   count_parts[part * G + first_g]            16 sectors, ideal 16 (512 bytes in 4 runs)
//   sum_partials[v][threadIdx.y][threadIdx.x]  1 wavefront, ideal 1 (conflict-free)
//   sum_partials[v][row][threadIdx.x]          1 wavefront, ideal 1 (conflict-free)
//   count[first_g]                             4 sectors, ideal 4 (128 contiguous bytes)
//
// Ideal accesses of group_means_mean_parts, without a remark in the code:
//   sum[b][threadIdx.x]                                   1 wavefront, ideal 1 (conflict-free)
//   key[first_n + 8704 * part + 512 * u]                  1 sector, ideal 1 (32 contiguous bytes)
//   x[first_n + 8704 * part + 512 * u]                    4 sectors, ideal 4 (128 contiguous bytes)
//   key[8704 * part + tail]                               1 sector, ideal 1 (32 contiguous bytes)
//   x[8704 * part + tail]                                 4 sectors, ideal 4 (128 contiguous bytes)
//   sum[g - first_g][floor_mod(g + lane - first_g, 512)]  1 wavefront, ideal 1 (conflict-free)
//   mean_parts[part * G + g]                              3 sectors, ideal 3 (80 contiguous bytes)
//
// Ideal accesses of group_means_mean, without a remark in the code:
//   mean_parts[part * G + g]             4 sectors, ideal 4 (128 contiguous bytes), at 2 places
//   group_sum[threadIdx.y][threadIdx.x]  1 wavefront, ideal 1 (conflict-free)
//   group_sum[0][threadIdx.x]            1 wavefront, ideal 1 (conflict-free)
//   group_sum[group][threadIdx.x]        1 wavefront, ideal 1 (conflict-free)
//   count[g]                             4 sectors, ideal 4 (128 contiguous bytes)
//   mean[g]                              4 sectors, ideal 4 (128 contiguous bytes)

constexpr int N = 200003;
constexpr int G = 40;

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

#ifndef CUGEN_WRAPPING_ADD_INT
#define CUGEN_WRAPPING_ADD_INT
// a + b modulo 2^32: signed overflow is undefined in C++.
__device__ __forceinline__ int wrapping_add(int a, int b)
{
    return (int)((unsigned int)a + (unsigned int)b);
}
#endif

extern "C" __global__ void __launch_bounds__(256) group_means_count_parts(
    const unsigned char* __restrict__ key,
    int* __restrict__ count_parts)
{
    const int part = blockIdx.y * 8 + threadIdx.y;
    const int g = blockIdx.x * 32 + threadIdx.x;
    if (part >= 3077 || g >= G)
        return;

    int sum = 0;
    for (int n = 0; n < min(65, N - 65 * part); ++n) {
        const unsigned char key_value = key[65 * part + n];
        sum += key_value == g;
    }
    count_parts[part * G + g] = sum;
}

extern "C" __global__ void __launch_bounds__(1024) group_means_count(
    int* __restrict__ count,
    const int* __restrict__ count_parts)
{
    const int first_g = blockIdx.x * 32 + threadIdx.x * 4;

    Vector<int, 4> sum4 = {};
    if (first_g < G) {
        #pragma unroll 4
        for (int part = threadIdx.y; part < 3077; part += 128) {
            const auto count_parts4 = load<4>(&count_parts[part * G + first_g]);
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                sum4.data[v] = wrapping_add(sum4.data[v], count_parts4.data[v]);
            }
        }
    }

    // block reduction over threadIdx.y through shared memory, in a fixed order
    __shared__ int sum_partials[4][128][8];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        sum_partials[v][threadIdx.y][threadIdx.x] = sum4.data[v];
    }
    __syncthreads();
    if (threadIdx.y != 0 || first_g >= G)
        return;
    for (int row = 1; row < 128; ++row) {
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            sum4.data[v] = wrapping_add(sum4.data[v], sum_partials[v][row][threadIdx.x]);
        }
    }

    store<4>(&count[first_g], sum4);
}

extern "C" __global__ void __launch_bounds__(512) group_means_mean_parts(
    const unsigned char* __restrict__ key,
    const float* __restrict__ x,
    float* __restrict__ mean_parts)
{
    __shared__ float sum[20][512];
    const int part = blockIdx.z;
    const int first_g = blockIdx.x * 20;
    const int stop_g = min(first_g + 20, 40);

    for (int b = 0; b < 20; ++b) {
        sum[b][threadIdx.x] = 0.0f;
    }

    const int stop = min(8704, N - 8704 * part);
    for (int batch = 0; batch < stop / 8192; ++batch) {
        const int first_n = threadIdx.x + 8192 * batch;
        unsigned char key_ahead[16];
        float x_ahead[16];
        #pragma unroll
        for (int u = 0; u < 16; ++u) {
            key_ahead[u] = key[first_n + 8704 * part + 512 * u];
            x_ahead[u] = x[first_n + 8704 * part + 512 * u];
        }
        #pragma unroll
        for (int u = 0; u < 16; ++u) {
            const unsigned char key_value = key_ahead[u];
            const float x_value = x_ahead[u];
            if (key_value >= first_g && key_value < stop_g) {
                const int bin = key_value - first_g;
                // sum[bin][threadIdx.x]: unknown: whether it runs depends on data
                sum[bin][threadIdx.x] = sum[bin][threadIdx.x] + x_value;
            }
        }
    }
    for (int tail = threadIdx.x + 8192 * (stop / 8192); tail < stop; tail += 512) {
        const unsigned char key_value = key[8704 * part + tail];
        const float x_value = x[8704 * part + tail];
        if (key_value >= first_g && key_value < stop_g) {
            const int bin_ = key_value - first_g;
            // sum[bin_][threadIdx.x]: unknown: whether it runs depends on data
            sum[bin_][threadIdx.x] = sum[bin_][threadIdx.x] + x_value;
        }
    }
    __syncthreads();

    for (int g = first_g + threadIdx.x; g < stop_g; g += 512) {
        float total = 0.0f;
        #pragma unroll 16
        for (int lane = 0; lane < 512; ++lane) {
            total += sum[g - first_g][floor_mod(g + lane - first_g, 512)];
        }
        mean_parts[part * G + g] = total;
    }
}

extern "C" __global__ void __launch_bounds__(128) group_means_mean(
    float* __restrict__ mean,
    const int* __restrict__ count,
    const float* __restrict__ mean_parts)
{
    const int group_row = blockIdx.x * 64 + threadIdx.x;
    const int g = min(group_row, G - 1);

    float sum = 0.0f;
    #pragma unroll
    for (int s = 0; s < 11; ++s) {
        const int part = threadIdx.y + 2 * s;
        const float mean_parts_part_g = mean_parts[part * G + g];
        sum += mean_parts_part_g;
    }
    if (threadIdx.y + 22 < 23) {
        const int part = threadIdx.y + 22;
        const float mean_parts_part_g = mean_parts[part * G + g];
        sum += mean_parts_part_g;
    }
    __shared__ float group_sum[2][64];
    group_sum[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    sum = group_sum[0][threadIdx.x];
    for (int group = 1; group < 2; ++group) {
        sum += group_sum[group][threadIdx.x];
    }
    if (threadIdx.y == 0 && group_row < G) {
        const int count_g = count[g];
        mean[g] = sum / max(count_g, 1);
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" size_t group_means_workspace_bytes(void)
{
    return 256 * ((12308 * G + 255) / 256) + 256 * ((4 * G + 255) / 256) + 256 * ((92 * G + 255) / 256);
}

extern "C" cudaError_t group_means_launch(
    const unsigned char* key,
    const float* x,
    float* mean,
    void* workspace,
    cudaStream_t stream)
{
    cudaError_t status = cudaSuccess;
    const bool allocates = workspace == nullptr;
    if (allocates)
        status = cudaMallocAsync(&workspace, group_means_workspace_bytes(), stream);
    if (status != cudaSuccess)
        return status;
    int* const count = static_cast<int*>(workspace);
    int* const count_parts = reinterpret_cast<int*>(static_cast<char*>(workspace) + 256 * ((4 * G + 255) / 256));
    float* const mean_parts = reinterpret_cast<float*>(static_cast<char*>(workspace) + 256 * ((12308 * G + 255) / 256)
        + 256 * ((4 * G + 255) / 256));
    group_means_count_parts<<<dim3((G + 31) / 32, 385), dim3(32, 8), 0, stream>>>(key, count_parts);
    group_means_count<<<dim3((G + 31) / 32), dim3(8, 128), 0, stream>>>(count, count_parts);
    group_means_mean_parts<<<dim3(2, 1, 23), dim3(512), 0, stream>>>(key, x, mean_parts);
    group_means_mean<<<dim3((G + 63) / 64), dim3(64, 2), 0, stream>>>(mean, count, mean_parts);
    if (allocates)
        cudaFreeAsync(workspace, stream);
    return cudaGetLastError();
}

#endif
