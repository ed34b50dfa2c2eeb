// bias_relu: A bias for each column, an activation, a gate for each row; one pass over the matrix,
// the operands stay in registers
//
// computes  shifted[m, n] = x[m, n] + bias[n]
//           y[m, n] = relu(shifted[m, n]) * gate[m]
// params    M = 300, N = 520
// x         input, bfloat16 [300, 520], aligned to 16 bytes
// bias      input, float32 [520], aligned to 16 bytes
// gate      input, float32 [300]
// y         output, bfloat16 [300, 520], aligned to 16 bytes
// launch    grid (3, 38, 1), block (32, 8, 1); family map
// bounds    4 of 4 accesses proved
// analysis  sm_90: 4 accesses, 1 ideal, 3 costly
//           worst: bias[n + 4 * u], 32 sectors, ideal 16; 21.67 on average (lanes 32 bytes apart)
//
// Made by cugen 0.1.0 from bias_relu.yaml (hash 68608e48dec82c6a) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   gate[m]  1 sector, ideal 1 (uniform address)

#include <cuda_bf16.h>

constexpr int M = 300;
constexpr int N = 520;

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

extern "C" __global__ void __launch_bounds__(256) bias_relu(
    const __nv_bfloat16* __restrict__ x,
    const float* __restrict__ bias,
    const float* __restrict__ gate,
    __nv_bfloat16* __restrict__ y)
{
    const int m = blockIdx.y * 8 + threadIdx.y;
    const int n = blockIdx.x * 256 + threadIdx.x * 8;
    if (m >= M || n >= N)
        return;

    // x[m * N + n]: 17 sectors, ideal 16; 11.33 on average (misaligned by 16 bytes)
    const auto x8 = load<8>(&x[m * N + n]);
    Vector<float, 4> bias4[2];
    #pragma unroll
    for (int u = 0; u < 2; ++u) {
        // bias[n + 4 * u]: 32 sectors, ideal 16; 21.67 on average (lanes 32 bytes apart)
        bias4[u] = load<4>(&bias[n + 4 * u]);
    }
    const float gate_m = gate[m];
    Vector<__nv_bfloat16, 8> y8;
    #pragma unroll
    for (int v = 0; v < 8; ++v) {
        const float shifted = __bfloat162float(x8.data[v]) + bias4[v / 4].data[v % 4];
        y8.data[v] = __float2bfloat16_rn(maximum(shifted, 0.0f) * gate_m);
    }
    // y[m * N + n]: 17 sectors, ideal 16; 11.33 on average (misaligned by 16 bytes)
    store<8>(&y[m * N + n], y8);
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t bias_relu_launch(
    const __nv_bfloat16* x,
    const float* bias,
    const float* gate,
    __nv_bfloat16* y,
    cudaStream_t stream)
{
    bias_relu<<<dim3((N + 255) / 256, (M + 7) / 8), dim3(32, 8), 0, stream>>>(x, bias, gate, y);
    return cudaGetLastError();
}

#endif
