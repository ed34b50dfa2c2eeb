// saxpy: y = a·x + y
//
// computes  y[i] += a * x[i]
// params    N = 100000
// x         input, float32 [100000], aligned to 16 bytes
// y         inout, float32 [100000], aligned to 16 bytes
// launch    grid (98, 1, 1), block (256, 1, 1); family map
// bounds    3 of 3 accesses proved
// analysis  sm_90: 3 accesses, 3 ideal
//
// Made by cugen 0.1.0 from saxpy.yaml (hash ff79090ca7129df4) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   x[i]  16 sectors, ideal 16 (512 contiguous bytes)
//   y[i]  16 sectors, ideal 16 (512 contiguous bytes), at 2 places

constexpr int N = 100000;

__constant__ float a;

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

extern "C" __global__ void __launch_bounds__(256) saxpy(
    const float* __restrict__ x,
    float* __restrict__ y)
{
    const int i = blockIdx.x * 1024 + threadIdx.x * 4;
    if (i >= N)
        return;

    const auto x4 = load<4>(&x[i]);
    const auto y_old4 = load<4>(&y[i]);
    Vector<float, 4> y4;
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        y4.data[v] = y_old4.data[v] + a * x4.data[v];
    }
    store<4>(&y[i], y4);
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

#include <map>
#include <mutex>

// A device has one copy of the constants: the stream of a call waits for the launches of
// the call before, which may be on another stream.
static std::mutex saxpy_mutex;

// Gives the event to record after the launches; null while the stream is being captured,
// since a graph can't wait for what it doesn't contain.
static cudaError_t saxpy_wait(cudaStream_t stream, cudaEvent_t* launched)
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

extern "C" cudaError_t saxpy_launch(
    const float* x,
    float* y,
    float a_value,
    cudaStream_t stream)
{
    cudaError_t status = cudaSuccess;
    const std::lock_guard<std::mutex> lock(saxpy_mutex);
    cudaEvent_t launched = nullptr;
    status = saxpy_wait(stream, &launched);
    if (status != cudaSuccess)
        return status;
    cudaMemcpyToSymbolAsync(a, &a_value, 4, 0, cudaMemcpyHostToDevice, stream);
    saxpy<<<dim3((N + 1023) / 1024), dim3(256), 0, stream>>>(x, y);
    if (launched != nullptr)
        cudaEventRecord(launched, stream);
    return cudaGetLastError();
}

#endif
