// structures_of_arrays: The length of many vectors, their components in three arrays; compare `array_of_structures`
//
// computes  length[i] = sqrt(x[i] * x[i] + y[i] * y[i] + z[i] * z[i])
// params    N = 60000
// x         input, float32 [60000], aligned to 16 bytes
// y         input, float32 [60000], aligned to 16 bytes
// z         input, float32 [60000], aligned to 16 bytes
// length    output, float32 [60000], aligned to 16 bytes
// launch    grid (59, 1, 1), block (256, 1, 1); family map
// bounds    4 of 4 accesses proved
// analysis  sm_90: 4 accesses, 4 ideal
//
// Made by cugen 0.1.0 from structures_of_arrays.yaml (hash f83a26f9968c244f) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   x[i]       16 sectors, ideal 16 (512 contiguous bytes)
//   y[i]       16 sectors, ideal 16 (512 contiguous bytes)
//   z[i]       16 sectors, ideal 16 (512 contiguous bytes)
//   length[i]  16 sectors, ideal 16 (512 contiguous bytes)

constexpr int N = 60000;

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

extern "C" __global__ void __launch_bounds__(256) structures_of_arrays(
    const float* __restrict__ x,
    const float* __restrict__ y,
    const float* __restrict__ z,
    float* __restrict__ length)
{
    const int i = blockIdx.x * 1024 + threadIdx.x * 4;
    if (i >= N)
        return;

    const auto x4 = load<4>(&x[i]);
    const auto y4 = load<4>(&y[i]);
    const auto z4 = load<4>(&z[i]);
    Vector<float, 4> length4;
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        const float x_value = x4.data[v];
        const float y_value = y4.data[v];
        const float z_value = z4.data[v];
        length4.data[v] = sqrtf(x_value * x_value + y_value * y_value + z_value * z_value);
    }
    store<4>(&length[i], length4);
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t structures_of_arrays_launch(
    const float* x,
    const float* y,
    const float* z,
    float* length,
    cudaStream_t stream)
{
    structures_of_arrays<<<dim3((N + 1023) / 1024), dim3(256), 0, stream>>>(x, y, z, length);
    return cudaGetLastError();
}

#endif
