// enlarge: An image enlarged by bilinear interpolation, in the texture hardware, with weights in steps of 1/256
//
// computes  y[i, j] = x[(i + 0.5) * (H / M) - 0.5, (j + 0.5) * (W / N) - 0.5]
// params    H = 270, W = 480, M = 405, N = 720
// x         input, float32 [270, 480], 2-D texture, filtered, outside: clamp, aligned to 512 bytes
// y         output, float32 [405, 720], aligned to 16 bytes
// launch    grid (6, 51, 1), block (32, 8, 1); family map
// bounds    2 of 2 accesses proved
// analysis  sm_90: 2 accesses, 1 ideal, 1 unknown
//
// Made by cugen 0.1.0 from enlarge.yaml (hash 6f08bb8ddda3d5c2) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   y[i * N + j0]  16 sectors, ideal 16 (512 contiguous bytes)

constexpr int H = 270;
constexpr int W = 480;
constexpr int M = 405;
constexpr int N = 720;

#ifndef CUGEN_VECTOR
#define CUGEN_VECTOR
// `count` elements, moved by one vector access.
template <typename T, int count>
struct alignas(count * sizeof(T)) Vector {
    T data[count];
};
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

extern "C" __global__ void __launch_bounds__(256) enlarge(
    cudaTextureObject_t x_texture,
    float* __restrict__ y)
{
    const int i = blockIdx.y * 8 + threadIdx.y;
    const int j0 = blockIdx.x * 128 + threadIdx.x * 4;
    if (i >= M || j0 >= N)
        return;

    const float x_y = (i + 0.5f) * ((float)H / (float)M) - 0.5f;
    Vector<float, 4> y4;
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        const int j = j0 + v;
        const float x_x = (j + 0.5f) * ((float)W / (float)N) - 0.5f;
        // x_texture: unknown: the sectors of 2-D texture fetches are not modelled
        const float x_value = tex2D<float>(x_texture, x_x + 0.5f, x_y + 0.5f);
        y4.data[v] = x_value;
    }
    store<4>(&y[i * N + j0], y4);
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

#include <atomic>

// Texture object of pitched memory: made once for each address on a device, and never destroyed, since launches and
// graphs may be using it.
static cudaError_t enlarge_texture_2d(
    const void* data, size_t width, size_t height, size_t pitch, cudaChannelFormatDesc format,
        cudaTextureAddressMode address, cudaTextureFilterMode filter, cudaTextureObject_t* texture)
{
    struct Entry {
        int device;
        const void* data;
        size_t width;
        size_t height;
        size_t pitch;
        cudaChannelFormatDesc format;
        cudaTextureAddressMode address;
        cudaTextureFilterMode filter;
        cudaTextureObject_t texture;
        Entry* next;
    };
    static std::atomic<Entry*> entries{nullptr};
    int device = 0;
    cudaError_t status = cudaGetDevice(&device);
    if (status != cudaSuccess || width == 0 || height == 0)
        return status;
    for (const Entry* entry = entries.load(); entry != nullptr; entry = entry->next)
        if (entry->device == device && entry->data == data && entry->width == width && entry->height == height
            && entry->pitch == pitch && entry->address == address && entry->filter == filter
            && entry->format.x == format.x && entry->format.f == format.f) {
            *texture = entry->texture;
            return cudaSuccess;
        }
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypePitch2D;
    resource.res.pitch2D.devPtr = const_cast<void*>(data);
    resource.res.pitch2D.desc = format;
    resource.res.pitch2D.width = width;
    resource.res.pitch2D.height = height;
    resource.res.pitch2D.pitchInBytes = pitch;
    cudaTextureDesc reading = {};
    reading.addressMode[0] = address;
    reading.addressMode[1] = address;
    reading.filterMode = filter;
    reading.readMode = cudaReadModeElementType;
    reading.normalizedCoords = address == cudaAddressModeWrap || address == cudaAddressModeMirror;
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;  // a capture doesn't record it, but may forbid it
    cudaThreadExchangeStreamCaptureMode(&mode);
    status = cudaCreateTextureObject(texture, &resource, &reading, nullptr);
    cudaThreadExchangeStreamCaptureMode(&mode);
    if (status != cudaSuccess)
        return status;
    Entry* const added =
        new Entry{device, data, width, height, pitch, format, address, filter, *texture, entries.load()};
    while (!entries.compare_exchange_weak(added->next, added)) {
    }
    return cudaSuccess;
}

extern "C" cudaError_t enlarge_launch(
    const float* x,
    float* y,
    cudaStream_t stream)
{
    cudaError_t status = cudaSuccess;
    cudaTextureObject_t x_texture = 0;
    status = enlarge_texture_2d(x, W, H, 4 * W, cudaCreateChannelDesc<float>(), cudaAddressModeClamp,
        cudaFilterModeLinear, &x_texture);
    if (status != cudaSuccess)
        return status;
    enlarge<<<dim3((N + 127) / 128, (M + 7) / 8), dim3(32, 8), 0, stream>>>(x_texture, y);
    return cudaGetLastError();
}

#endif
