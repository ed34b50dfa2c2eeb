// tone_curve: A photo through a tone curve, which is fetched from a texture
//
// computes  toned[y, x] = curve[photo[y, x]]
// params    H = 270, W = 481
// photo     input, uint8 [270, 481]
// curve     input, float32 [256], texture, aligned to 512 bytes
// toned     output, float32 [270, 481]
// launch    grid (2, 270, 1), block (256, 1, 1); family map
// bounds    3 of 3 accesses proved
// analysis  sm_90: 3 accesses, 2 costly, 1 unknown
//           worst: photo[y * W + x], 2 sectors, ideal 1; 1.91 on average (misaligned by 1 byte)
//
// Made by cugen 0.1.0 from tone_curve.yaml (hash 80bccdab91be4374) for sm_90. Edit the spec, not this file.

constexpr int W = 481;

extern "C" __global__ void __launch_bounds__(256) tone_curve(
    const unsigned char* __restrict__ photo,
    cudaTextureObject_t curve_texture,
    float* __restrict__ toned)
{
    const int y = blockIdx.y;
    const int x = blockIdx.x * 256 + threadIdx.x;
    if (x >= W)
        return;

    // photo[y * W + x]: 2 sectors, ideal 1; 1.91 on average (misaligned by 1 byte)
    const unsigned char photo_y_x = photo[y * W + x];
    // curve_texture at photo_y_x: unknown: the subscript depends on the value photo_y_x, which is read from memory
    const float curve_ = tex1Dfetch<float>(curve_texture, photo_y_x);
    // toned[y * W + x]: 5 sectors, ideal 4; 4.63 on average (misaligned by 4 bytes)
    toned[y * W + x] = curve_;
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

#include <atomic>

constexpr int H = 270;

// Texture object of linear memory: made once for each address on a device, and never destroyed, since launches and
// graphs may be using it.
static cudaError_t tone_curve_texture(
    const void* data, size_t bytes, cudaChannelFormatDesc format, cudaTextureObject_t* texture)
{
    struct Entry {
        int device;
        const void* data;
        size_t bytes;
        cudaChannelFormatDesc format;
        cudaTextureObject_t texture;
        Entry* next;
    };
    static std::atomic<Entry*> entries{nullptr};
    int device = 0;
    cudaError_t status = cudaGetDevice(&device);
    if (status != cudaSuccess || bytes == 0)
        return status;
    for (const Entry* entry = entries.load(); entry != nullptr; entry = entry->next)
        if (entry->device == device && entry->data == data && entry->bytes == bytes && entry->format.x == format.x
            && entry->format.f == format.f) {
            *texture = entry->texture;
            return cudaSuccess;
        }
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = const_cast<void*>(data);
    resource.res.linear.desc = format;
    resource.res.linear.sizeInBytes = bytes;
    cudaTextureDesc reading = {};
    reading.readMode = cudaReadModeElementType;
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;  // a capture doesn't record it, but may forbid it
    cudaThreadExchangeStreamCaptureMode(&mode);
    status = cudaCreateTextureObject(texture, &resource, &reading, nullptr);
    cudaThreadExchangeStreamCaptureMode(&mode);
    if (status != cudaSuccess)
        return status;
    Entry* const added = new Entry{device, data, bytes, format, *texture, entries.load()};
    while (!entries.compare_exchange_weak(added->next, added)) {
    }
    return cudaSuccess;
}

extern "C" cudaError_t tone_curve_launch(
    const unsigned char* photo,
    const float* curve,
    float* toned,
    cudaStream_t stream)
{
    cudaError_t status = cudaSuccess;
    cudaTextureObject_t curve_texture = 0;
    status = tone_curve_texture(curve, 1024, cudaCreateChannelDesc<float>(), &curve_texture);
    if (status != cudaSuccess)
        return status;
    tone_curve<<<dim3((W + 255) / 256, H), dim3(256), 0, stream>>>(photo, curve_texture, toned);
    return cudaGetLastError();
}

#endif
