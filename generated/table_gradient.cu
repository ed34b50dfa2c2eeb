// table_gradient: The gradient of a table by the rows that were gathered from it; a block has the
// accumulators of some of the table's rows
//
// computes  d[v, e] = sum(cast(g[n, e], float32), n, where=id[n] == v)
// params    N = 4001, V = 2000, E = 128
// id        input, int32 [4001]
// g         input, bfloat16 [4001, 128], aligned to 8 bytes
// d         output, float32 [2000, 128], aligned to 16 bytes
// launch    grid (334, 1, 1), block (32, 16, 1), 49152 bytes of shared memory; family grouped
// bounds    14 of 14 accesses proved
// analysis  sm_90: 11 accesses, 5 ideal, 6 unknown
//
// Made by cugen 0.1.0 from table_gradient.yaml (hash 9e338c53309f8b83) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   sum[b][v][threadIdx.y][threadIdx.x]      1 wavefront, ideal 1 (conflict-free)
//   id[first_n + 16 * u]                     1 sector, ideal 1 (uniform address)
//   id[tail]                                 1 sector, ideal 1 (uniform address)
//   sum[v_ - first_v][v][lane][threadIdx.x]  1 wavefront, ideal 1 (conflict-free)
//   d[v_ * E + first_e]                      16 sectors, ideal 16 (512 contiguous bytes)

#include <cuda_bf16.h>

constexpr int N = 4001;
constexpr int E = 128;

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

extern "C" __global__ void __launch_bounds__(512) table_gradient(
    const int* __restrict__ id,
    const __nv_bfloat16* __restrict__ g,
    float* __restrict__ d)
{
    __shared__ float sum[6][4][16][32];
    const int first_v = blockIdx.x * 6;
    const int stop_v = min(first_v + 6, 2000);
    const int first_e = blockIdx.y * 128 + threadIdx.x * 4;

    for (int b = 0; b < 6; ++b) {
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            sum[b][v][threadIdx.y][threadIdx.x] = 0.0f;
        }
    }

    for (int batch = 0; batch < N / 256; ++batch) {
        const int first_n = threadIdx.y + 256 * batch;
        int id_ahead[16];
        #pragma unroll
        for (int u = 0; u < 16; ++u) {
            id_ahead[u] = id[first_n + 16 * u];
        }
        unsigned int nearest = 4294967295U;
        #pragma unroll
        for (int u = 0; u < 16; ++u) {
            nearest = min(nearest, (unsigned int)id_ahead[u] - (unsigned int)first_v);
        }
        if (nearest < 6U) {
            #pragma unroll
            for (int u = 0; u < 16; ++u) {
                const int id_n = id_ahead[u];
                if (id_n >= first_v && id_n < stop_v) {
                    const int bin = (long long)id_n - first_v;
                    // g[(first_n + 16 * u) * E + first_e]: unknown: whether it runs depends on data
                    const auto g4 = load<4>(&g[(first_n + 16 * u) * E + first_e]);
                    #pragma unroll
                    for (int v = 0; v < 4; ++v) {
                        // sum[bin][v][threadIdx.y][threadIdx.x]: unknown: whether it runs depends on data
                        sum[bin][v][threadIdx.y][threadIdx.x] = sum[bin][v][threadIdx.y][threadIdx.x]
                            + __bfloat162float(g4.data[v]);
                    }
                }
            }
        }
    }
    for (int tail = 256 * (N / 256) + threadIdx.y; tail < N; tail += 16) {
        const int id_n = id[tail];
        if (id_n >= first_v && id_n < stop_v) {
            const int bin_ = (long long)id_n - first_v;
            // g[tail * E + first_e]: unknown: whether it runs depends on data
            const auto g4_ = load<4>(&g[tail * E + first_e]);
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                // sum[bin_][v][threadIdx.y][threadIdx.x]: unknown: whether it runs depends on data
                sum[bin_][v][threadIdx.y][threadIdx.x] = sum[bin_][v][threadIdx.y][threadIdx.x]
                    + __bfloat162float(g4_.data[v]);
            }
        }
    }
    __syncthreads();

    for (int v_ = first_v + threadIdx.y; v_ < stop_v; v_ += 16) {
        Vector<float, 4> d4;
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            float total = 0.0f;
            #pragma unroll
            for (int lane = 0; lane < 16; ++lane) {
                total += sum[v_ - first_v][v][lane][threadIdx.x];
            }
            d4.data[v] = total;
        }
        store<4>(&d[v_ * E + first_e], d4);
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t table_gradient_launch(
    const int* id,
    const __nv_bfloat16* g,
    float* d,
    cudaStream_t stream)
{
    table_gradient<<<dim3(334, (E + 127) / 128), dim3(32, 16), 0, stream>>>(id, g, d);
    return cudaGetLastError();
}

#endif
