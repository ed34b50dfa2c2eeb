// heat_torus: A step of the heat equation on a torus; the texture hardware wraps the coordinates
//
// computes  next[y, x] = u[y, x] + rate * (u[y - 1, x] + u[y + 1, x] + u[y, x - 1] + u[y, x + 1] - 4 * u[y, x])
// params    H = 270, W = 480
// u         input, float32 [270, 480], 2-D texture, outside: wrap, aligned to 512 bytes
// next      output, float32 [270, 480]
// launch    grid (15, 68, 1), block (32, 4, 1); family stencil
// bounds    13 of 13 accesses proved
// analysis  sm_90: 4 accesses, 1 ideal, 3 unknown
//
// Made by cugen 0.1.0 from heat_torus.yaml (hash 30751e8f0684a6c2) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   next[y * W + x]  4 sectors, ideal 4 (128 contiguous bytes)

constexpr int H = 270;
constexpr int W = 480;
constexpr float rate = 0.2f;

extern "C" __global__ void __launch_bounds__(128) heat_torus(
    cudaTextureObject_t u_texture,
    float* __restrict__ next)
{
    const int y = blockIdx.y * 4 + threadIdx.y;
    const int x = blockIdx.x * 32 + threadIdx.x;
    if (y >= H)
        return;

    // register windows: what the thread's outputs read
    float u_window[3][3];
    // u_texture: unknown: the sectors of 2-D texture fetches are not modelled
    u_window[0][1] = tex2D<float>(u_texture, (x + 0.5f) * (1.0f / W), (y - 1 + 0.5f) * (1.0f / H));
    #pragma unroll
    for (int column = 0; column < 3; ++column) {
        // u_texture: unknown: the sectors of 2-D texture fetches are not modelled
        u_window[1][column] = tex2D<float>(u_texture, (x + column - 1 + 0.5f) * (1.0f / W), (y + 0.5f) * (1.0f / H));
    }
    // u_texture: unknown: the sectors of 2-D texture fetches are not modelled
    u_window[2][1] = tex2D<float>(u_texture, (x + 0.5f) * (1.0f / W), (y + 1 + 0.5f) * (1.0f / H));

    next[y * W + x] = u_window[1][1]
        + rate * (u_window[0][1] + u_window[2][1] + u_window[1][0] + u_window[1][2] - 4.0f * u_window[1][1]);
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

#include <atomic>

// Texture object of pitched memory: made once for each address on a device, and never destroyed, since launches and
// graphs may be using it.
static cudaError_t heat_torus_texture_2d(
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

extern "C" cudaError_t heat_torus_launch(
    const float* u,
    float* next,
    cudaStream_t stream)
{
    cudaError_t status = cudaSuccess;
    cudaTextureObject_t u_texture = 0;
    status = heat_torus_texture_2d(u, W, H, 4 * W, cudaCreateChannelDesc<float>(), cudaAddressModeWrap,
        cudaFilterModePoint, &u_texture);
    if (status != cudaSuccess)
        return status;
    heat_torus<<<dim3((W + 31) / 32, (H + 3) / 4), dim3(32, 4), 0, stream>>>(u_texture, next);
    return cudaGetLastError();
}

#endif
