// matmul_few_rows: Skinny GEMM with K-major weights, as in LLM decoding; each weight is read once for all rows
//
// computes                 y[m, n] = relu(sum(x[m, k] * w[n, k], k) + bias[n])
// params                   M = 4, K = 1024, N = 300
// x                        input, float16 [4, 1024], aligned to 16 bytes
// w                        input, float16 [300, 1024], aligned to 16 bytes
// bias                     input, float16 [300]
// y                        output, float16 [4, 300], aligned to 8 bytes
// matmul_few_rows_y_parts  grid (10, 2, 1), block (32, 8, 1); family skinny
// matmul_few_rows_y        grid (1, 4, 1), block (128, 1, 1); family reduce
// bounds                   8 of 8 accesses proved
// analysis                 sm_90: 6 accesses, 3 ideal, 3 costly
//                          worst: bias[n], 8 sectors, ideal 2; 6.33 on average (lanes 8 bytes apart)
//
// Made by cugen 0.1.0 from matmul_few_rows.yaml (hash 7f85a821d01a09c0) for sm_90. Edit the spec, not this file.
//
// Ideal accesses of matmul_few_rows_y_parts, without a remark in the code:
//   w[(n0 + j) * K + k0 + 512 * part]  16 sectors, ideal 16 (512 contiguous bytes)
//   x[i * K + k0 + 512 * part]         16 sectors, ideal 16 (512 contiguous bytes)
//   y_parts[(part * M + m) * N + n]    1 sector, ideal 1 (uniform address)

#include <cuda_fp16.h>

constexpr int M = 4;
constexpr int K = 1024;
constexpr int N = 300;

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

#ifndef CUGEN_MAXIMUM_FLOAT
#define CUGEN_MAXIMUM_FLOAT
// Maximum; NaN if an operand is NaN.
__device__ __forceinline__ float maximum(float a, float b)
{
#if __CUDA_ARCH__ >= 800
    float result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
#else
    return a > b || a != a ? a : b;
#endif
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

extern "C" __global__ void __launch_bounds__(256) matmul_few_rows_y_parts(
    const __half* __restrict__ x,
    const __half* __restrict__ w,
    float* __restrict__ y_parts)
{
    const int part = blockIdx.y;
    const int n0 = blockIdx.x * 32 + threadIdx.y * 4;
    if (n0 >= N)
        return;

    float acc[4][4] = {};
    #pragma unroll 2
    for (int k0 = threadIdx.x * 8; k0 < 512; k0 += 256) {
        Vector<__half, 8> w_frag[4];
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
            w_frag[j] = load<8>(&w[(n0 + j) * K + k0 + 512 * part]);
        }
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            const auto x_frag = load<8>(&x[i * K + k0 + 512 * part]);
            #pragma unroll
            for (int j = 0; j < 4; ++j) {
                #pragma unroll
                for (int dk = 0; dk < 8; ++dk) {
                    acc[i][j] += __half2float(x_frag.data[dk]) * __half2float(w_frag[j].data[dk]);
                }
            }
        }
    }

    #pragma unroll
    for (int j = 0; j < 4; ++j) {
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            float total = acc[i][j];
            #pragma unroll
            for (int lanes = 16; lanes > 0; lanes /= 2) {
                total += __shfl_xor_sync(0xffffffff, total, lanes);
            }
            if (threadIdx.x == 0) {
                const int n = n0 + j;
                const int m = i;
                y_parts[(part * M + m) * N + n] = total;
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(128) matmul_few_rows_y(
    const __half* __restrict__ bias,
    __half* __restrict__ y,
    const float* __restrict__ y_parts)
{
    const int m = blockIdx.y;
    const int first_n = blockIdx.x * 512 + threadIdx.x * 4;
    if (first_n >= N)
        return;

    Vector<float, 4> sum4 = {};
    #pragma unroll 4
    for (int part = 0; part < 2; ++part) {
        // y_parts[(part * M + m) * N + first_n]: 17 sectors, ideal 16; 13 on average (misaligned by 16 bytes)
        const auto y_parts4 = load<4>(&y_parts[(part * M + m) * N + first_n]);
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            sum4.data[v] += y_parts4.data[v];
        }
    }

    Vector<__half, 4> y4;
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        const int n = first_n + v;
        // bias[n]: 8 sectors, ideal 2; 6.33 on average (lanes 8 bytes apart)
        const float bias_n = __half2float(bias[n]);
        y4.data[v] = __float2half_rn(maximum(sum4.data[v] + bias_n, 0.0f));
    }
    // y[m * N + first_n]: 9 sectors, ideal 8; 7 on average (misaligned by 24 bytes)
    store<4>(&y[m * N + first_n], y4);
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" size_t matmul_few_rows_workspace_bytes(void)
{
    return 256 * ((8 * M * N + 255) / 256);
}

extern "C" cudaError_t matmul_few_rows_launch(
    const __half* x,
    const __half* w,
    const __half* bias,
    __half* y,
    void* workspace,
    cudaStream_t stream)
{
    cudaError_t status = cudaSuccess;
    const bool allocates = workspace == nullptr;
    if (allocates)
        status = cudaMallocAsync(&workspace, matmul_few_rows_workspace_bytes(), stream);
    if (status != cudaSuccess)
        return status;
    float* const y_parts = static_cast<float*>(workspace);
    matmul_few_rows_y_parts<<<dim3((N + 31) / 32, 2), dim3(32, 8), 0, stream>>>(x, w, y_parts);
    matmul_few_rows_y<<<dim3((N + 511) / 512, M), dim3(128), 0, stream>>>(bias, y, y_parts);
    if (allocates)
        cudaFreeAsync(workspace, stream);
    return cudaGetLastError();
}

#endif
