// A driver that launches nothing and writes down what it is told. The test puts in what it knows of the kernels.
#include <cuda.h>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

static std::atomic<int> libraries_loaded{0};
static unsigned long long free_address = 0x500000000000ULL;
static bool relaxed = false;  // the thread's capture mode
static CUresult failing = CUDA_SUCCESS;  // what the next allocation gives
static CUresult waiting = CUDA_SUCCESS;  // what the next wait for an event gives
static bool capturing = false;
static unsigned long long current_context = 5;
static int capability = 90;
struct Known { const char* kernel; size_t sizes[12]; };
static const Known known[] = {KNOWN};
static const size_t image_bytes = IMAGE_BYTES;  // of the shortest

static unsigned checksum(const unsigned char* bytes, size_t count)
{
    unsigned sum = ~0u;
    for (size_t i = 0; i < count; ++i) {
        sum ^= bytes[i];
        for (int bit = 0; bit < 8; ++bit)
            sum = (sum >> 1) ^ (0xedb88320u & (0u - (sum & 1)));
    }
    return ~sum;
}

extern "C" {

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option*, void**, unsigned, CUlibraryOption*,
    void**, unsigned)
{
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const int number = ++libraries_loaded;
    *library = reinterpret_cast<CUlibrary>(0x1000ULL * static_cast<unsigned long long>(number));
    std::printf("load %u\n", checksum(static_cast<const unsigned char*>(code), image_bytes));
    return CUDA_SUCCESS;
}

CUresult cuLibraryUnload(CUlibrary)
{
    --libraries_loaded;
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary, const char* name)
{
    for (const Known& one : known)
        if (std::strcmp(one.kernel, name) == 0) {
            *kernel = reinterpret_cast<CUkernel>(const_cast<Known*>(&one));
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t*, CUlibrary, const char* name)
{
    std::printf("symbol %s\n", name);
    *address = 0x700;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device)
{
    *device = 3;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice)
{
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = capability / 10;
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = capability % 10;
        break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = 132;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = 1024;
        break;
    default:
        *value = 232448;  // bytes of shared memory
    }
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context)
{
    *context = reinterpret_cast<CUcontext>(0x33);
    return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext, unsigned long long* id)
{
    *id = current_context;
    return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream, CUstreamCaptureStatus* status)
{
    *status = capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent* event, unsigned flags)
{
    std::printf("event of context %llu, flags %u\n", current_context, flags);
    *event = reinterpret_cast<CUevent>(current_context);
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent)
{
    return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream, CUevent event, unsigned)
{
    std::printf("wait %llu\n", reinterpret_cast<unsigned long long>(event));
    return waiting;
}

CUresult cuEventRecord(CUevent event, CUstream)
{
    std::printf("record %llu\n", reinterpret_cast<unsigned long long>(event));
    return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode)
{
    static CUstreamCaptureMode current = CU_STREAM_CAPTURE_MODE_GLOBAL;
    std::swap(current, *mode);
    relaxed = current == CU_STREAM_CAPTURE_MODE_RELAXED;
    return CUDA_SUCCESS;
}

CUresult cuTexObjectCreate(CUtexObject* texture, const CUDA_RESOURCE_DESC* resource, const CUDA_TEXTURE_DESC* reading,
    const CUDA_RESOURCE_VIEW_DESC*)
{
    if (!relaxed)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (resource->resType == CU_RESOURCE_TYPE_PITCH2D) {
        const auto& pitched = resource->res.pitch2D;
        *texture = pitched.devPtr + 7;
        std::printf("texture %d %llx, %zu x %zu, pitch %zu, of format %d x %u, modes %d %d, filter %d, flags %u\n",
            resource->resType, pitched.devPtr, pitched.width, pitched.height, pitched.pitchInBytes, pitched.format,
            pitched.numChannels, reading->addressMode[0], reading->addressMode[1],
            reading->filterMode, reading->flags);
        return CUDA_SUCCESS;
    }
    const auto& linear = resource->res.linear;
    *texture = linear.devPtr + 7;
    std::printf("texture %d %llx, %zu bytes of format %d x %u, flags %u\n", resource->resType, linear.devPtr,
        linear.sizeInBytes, linear.format, linear.numChannels, reading->flags);
    return CUDA_SUCCESS;
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device)
{
    const Known* one = reinterpret_cast<const Known*>(kernel);
    std::printf("attribute %d of %s is %d on %d\n", attribute, one->kernel, value, device);
    return CUDA_SUCCESS;
}

CUresult cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream)
{
    std::printf("allocate %zu\n", bytes);
    if (failing != CUDA_SUCCESS)
        return failing;
    *address = free_address;
    return CUDA_SUCCESS;
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream)
{
    std::printf("free %llx\n", address);
    return CUDA_SUCCESS;
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream)
{
    std::printf("fill %llx with %d, %zu\n", to, value, bytes);
    return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream)
{
    std::printf("from the host %llx:", to);
    for (size_t i = 0; i < bytes; ++i)
        std::printf("%02x", static_cast<const unsigned char*>(from)[i]);
    std::printf("\n");
    return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream)
{
    std::printf("on the device %llx %llx %zu\n", to, from, bytes);
    return CUDA_SUCCESS;
}

// A map that holds the address alone.
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType, cuuint32_t rank, void* address, const cuuint64_t*,
    const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
    CUtensorMapL2promotion, CUtensorMapFloatOOBfill)
{
    *map = CUtensorMap{};
    map->opaque[0] = reinterpret_cast<unsigned long long>(address);
    std::printf("tensor map of rank %u at %llx\n", rank, reinterpret_cast<unsigned long long>(address));
    return CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap* map, CUtensorMapDataType, cuuint32_t rank, void* address, const cuuint64_t*,
    const cuuint64_t*, const int*, const int*, cuuint32_t, cuuint32_t, const cuuint32_t*, CUtensorMapInterleave,
    CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill)
{
    *map = CUtensorMap{};
    map->opaque[0] = reinterpret_cast<unsigned long long>(address);
    std::printf("im2col map of rank %u at %llx\n", rank, reinterpret_cast<unsigned long long>(address));
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int threads, size_t shared)
{
    const Known* one = reinterpret_cast<const Known*>(function);
    std::printf("blocks of %s with %d threads and %zu bytes\n", one->kernel, threads, shared);
    *blocks = 2048 / threads;
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
    unsigned bz, unsigned shared, CUstream stream, void** arguments, void**)
{
    const Known* one = reinterpret_cast<const Known*>(function);
    std::printf("launch %s (%u, %u, %u) (%u, %u, %u) %u %s", one->kernel, gx, gy, gz, bx, by, bz, shared,
        stream == reinterpret_cast<CUstream>(0x77) ? "on the stream" : "elsewhere");
    for (int i = 0; one->sizes[i] != 0; ++i) {
        std::printf(" ");
        for (size_t byte = 0; byte < one->sizes[i]; ++byte)
            std::printf("%02x", static_cast<const unsigned char*>(arguments[i])[byte]);
    }
    std::printf("\n");
    return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult status, const char** text)
{
    *text = status == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : nullptr;
    return CUDA_SUCCESS;
}

}
