// polynomial: A polynomial of degree 5 at many points, by Horner's rule
//
// computes  y[i] = fma(fma(fma(fma(fma(c[5], x[i], c[4]), x[i], c[3]), x[i], c[2]), x[i], c[1]), x[i], c[0])
// params    N = 50001
// c         input, float32 [6], constant
// x         input, float32 [50001], aligned to 16 bytes
// y         output, float32 [50001], aligned to 16 bytes
// launch    grid (49, 1, 1), block (256, 1, 1); family map
// bounds    16 of 16 accesses proved
// analysis  sm_90: 16 accesses, 16 ideal
//
// Made by cugen 0.1.0 from polynomial.yaml (hash d7f448f1bd1b0f08) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   x[i]           16 sectors, ideal 16 (512 contiguous bytes)
//   c_constant[5]  1 request, ideal 1 (uniform address), at 2 places
//   c_constant[4]  1 request, ideal 1 (uniform address), at 2 places
//   c_constant[3]  1 request, ideal 1 (uniform address), at 2 places
//   c_constant[2]  1 request, ideal 1 (uniform address), at 2 places
//   c_constant[1]  1 request, ideal 1 (uniform address), at 2 places
//   c_constant[0]  1 request, ideal 1 (uniform address), at 2 places
//   y[i]           16 sectors, ideal 16 (512 contiguous bytes)
//   x[tail]        1 sector, ideal 1 (uniform address)
//   y[tail]        1 sector, ideal 1 (uniform address)

constexpr int N = 50001;

__constant__ float c_constant[6];

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

extern "C" __global__ void __launch_bounds__(256) polynomial(
    const float* __restrict__ x,
    float* __restrict__ y)
{
    const int i = blockIdx.x * 1024 + threadIdx.x * 4;

    if (i + 3 < N) {
        const auto x4 = load<4>(&x[i]);
        const float c_5 = c_constant[5];
        const float c_4 = c_constant[4];
        const float c_3 = c_constant[3];
        const float c_2 = c_constant[2];
        const float c_1 = c_constant[1];
        const float c_0 = c_constant[0];
        Vector<float, 4> y4;
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            const float x_value = x4.data[v];
            y4.data[v] =
                fmaf(fmaf(fmaf(fmaf(fmaf(c_5, x_value, c_4), x_value, c_3), x_value, c_2), x_value, c_1), x_value, c_0);
        }
        store<4>(&y[i], y4);
    } else {
        #pragma unroll 1
        for (int tail = i; tail < N; ++tail) {
            const float c_5 = c_constant[5];
            const float x_i = x[tail];
            const float c_4 = c_constant[4];
            const float c_3 = c_constant[3];
            const float c_2 = c_constant[2];
            const float c_1 = c_constant[1];
            const float c_0 = c_constant[0];
            y[tail] = fmaf(fmaf(fmaf(fmaf(fmaf(c_5, x_i, c_4), x_i, c_3), x_i, c_2), x_i, c_1), x_i, c_0);
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

#include <map>
#include <mutex>

// A device has one copy of the constants: the stream of a call waits for the launches of
// the call before, which may be on another stream.
static std::mutex polynomial_mutex;

// Gives the event to record after the launches; null while the stream is being captured,
// since a graph can't wait for what it doesn't contain.
static cudaError_t polynomial_wait(cudaStream_t stream, cudaEvent_t* launched)
{
    static std::map<int, cudaEvent_t> events;  // of the devices, never destroyed
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    cudaError_t status = cudaStreamIsCapturing(stream, &capture);
    if (status != cudaSuccess || capture != cudaStreamCaptureStatusNone)
        return status;
    int device = 0;
    status = cudaGetDevice(&device);
    if (status != cudaSuccess)
        return status;
    cudaEvent_t& event = events[device];
    if (event == nullptr)
        status = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    if (status == cudaSuccess)
        status = cudaStreamWaitEvent(stream, event, 0);
    if (status == cudaSuccess)
        *launched = event;
    return status;
}

extern "C" cudaError_t polynomial_launch(
    const float* c,
    const float* x,
    float* y,
    cudaStream_t stream)
{
    cudaError_t status = cudaSuccess;
    const std::lock_guard<std::mutex> lock(polynomial_mutex);
    cudaEvent_t launched = nullptr;
    status = polynomial_wait(stream, &launched);
    if (status != cudaSuccess)
        return status;
    cudaMemcpyToSymbolAsync(c_constant, c, 24, 0, cudaMemcpyDeviceToDevice, stream);
    polynomial<<<dim3((N + 1023) / 1024), dim3(256), 0, stream>>>(x, y);
    if (launched != nullptr)
        cudaEventRecord(launched, stream);
    return cudaGetLastError();
}

#endif
