/* Substitute for the toolkit's header: the functions for arrays and launches of kernels built for the CPU. Device memory
   is host memory, and all calls are synchronous. */
#pragma once

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cugen_cpu/texture_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cudaError {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorNotSupported = 801
} cudaError_t;

enum cudaMemcpyKind {
  cudaMemcpyHostToHost = 0,
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4
};

/* Attributes that the launchers of variants and host programs query. */
enum cudaDeviceAttr {
  cudaDevAttrMaxThreadsPerBlock = 1,
  cudaDevAttrMaxSharedMemoryPerBlock = 8,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrMemoryClockRate = 36,
  cudaDevAttrGlobalMemoryBusWidth = 37,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};

enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
enum cudaFuncCache { cudaFuncCachePreferShared = 1, cudaFuncCachePreferL1 = 2, cudaFuncCachePreferEqual = 3 };
enum cudaSharedMemConfig { cudaSharedMemBankSizeFourByte = 1, cudaSharedMemBankSizeEightByte = 2 };

typedef struct cugen_stream* cudaStream_t;
typedef struct cugen_event { double milliseconds; }* cudaEvent_t;

static inline cudaError_t cudaGetLastError(void) { return cudaSuccess; }
static inline cudaError_t cudaPeekAtLastError(void) { return cudaSuccess; }
static inline const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorNotSupported: return "cudaErrorNotSupported";
    default: return "cudaErrorInvalidConfiguration";
  }
}
static inline const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorNotSupported: return "operation not supported";
    default: return "invalid configuration argument";
  }
}

static inline cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  /* Alignment of textures, which that of cudaMalloc divides. */
  *pointer = bytes == 0 ? NULL : aligned_alloc(512, (bytes + 511) / 512 * 512);
  return bytes != 0 && *pointer == NULL ? cudaErrorMemoryAllocation : cudaSuccess;
}
static inline cudaError_t cudaFree(void* pointer) {
  free(pointer);
  return cudaSuccess;
}
/* Pinned, mapped and managed memory: all memory is the host's. */
#define cudaHostAllocDefault 0
#define cudaHostAllocMapped 2
#define cudaMemAttachGlobal 1
static inline cudaError_t cudaMallocHost(void** pointer, size_t bytes) { return cudaMalloc(pointer, bytes); }
static inline cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  (void)flags;
  return cudaMalloc(pointer, bytes);
}
static inline cudaError_t cudaFreeHost(void* pointer) { return cudaFree(pointer); }
static inline cudaError_t cudaHostGetDevicePointer(void** pointer, void* host, unsigned flags) {
  (void)flags;
  *pointer = host;
  return cudaSuccess;
}
static inline cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream) {
  (void)stream;
  return cudaMalloc(pointer, bytes);
}
static inline cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  (void)stream;
  return cudaFree(pointer);
}
static inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, enum cudaMemcpyKind kind) {
  (void)kind;
  if (bytes != 0) memmove(to, from, bytes);
  return cudaSuccess;
}
static inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, enum cudaMemcpyKind kind,
                                          cudaStream_t stream) {
  (void)stream;
  return cudaMemcpy(to, from, bytes, kind);
}
static inline cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  if (bytes != 0) memset(to, value, bytes);
  return cudaSuccess;
}
static inline cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  (void)stream;
  return cudaMemset(to, value, bytes);
}

enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal = 0,
  cudaStreamCaptureModeThreadLocal = 1,
  cudaStreamCaptureModeRelaxed = 2
};
static inline cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode* mode) {
  (void)mode;
  return cudaSuccess;
}

/* Texture objects of linear memory, point sampled, and of pitched memory. */
struct cudaChannelFormatDesc {
  int x, y, z, w;
  enum cudaChannelFormatKind f;
};
enum cudaResourceType { cudaResourceTypeLinear = 2, cudaResourceTypePitch2D = 3 };
struct cudaResourceDesc {
  enum cudaResourceType resType;
  struct {
    struct {
      void* devPtr;
      struct cudaChannelFormatDesc desc;
      size_t sizeInBytes;
    } linear;
    struct {
      void* devPtr;
      struct cudaChannelFormatDesc desc;
      size_t width, height, pitchInBytes;
    } pitch2D;
  } res;
};
enum cudaTextureFilterMode { cudaFilterModePoint = 0, cudaFilterModeLinear = 1 };
enum cudaTextureReadMode { cudaReadModeElementType = 0 };
struct cudaTextureDesc {
  enum cudaTextureAddressMode addressMode[3];
  enum cudaTextureFilterMode filterMode;
  enum cudaTextureReadMode readMode;
  int normalizedCoords;
};
struct cudaResourceViewDesc;

static inline cudaError_t cudaCreateTextureObject(cudaTextureObject_t* object, const struct cudaResourceDesc* resource,
                                                  const struct cudaTextureDesc* reading,
                                                  const struct cudaResourceViewDesc* view) {
  const int is_2d = resource->resType == cudaResourceTypePitch2D;
  const struct cudaChannelFormatDesc format = is_2d ? resource->res.pitch2D.desc : resource->res.linear.desc;
  struct cugen_texture* texture;
  (void)view;
  /* Alignment of a pitch, and what its rows hold. */
  if (is_2d && (resource->res.pitch2D.pitchInBytes % 32 != 0 ||
                resource->res.pitch2D.pitchInBytes < resource->res.pitch2D.width * ((size_t)format.x / 8)))
    return cudaErrorInvalidValue;
  texture = (struct cugen_texture*)calloc(1, sizeof(struct cugen_texture));
  if (texture == NULL) return cudaErrorMemoryAllocation;
  texture->data = is_2d ? resource->res.pitch2D.devPtr : resource->res.linear.devPtr;
  if (is_2d) {
    texture->width = resource->res.pitch2D.width;
    texture->height = resource->res.pitch2D.height;
    texture->pitch = resource->res.pitch2D.pitchInBytes;
    texture->address = reading->addressMode[0];
    texture->normalized = reading->normalizedCoords;
    texture->linear = reading->filterMode == cudaFilterModeLinear;
  } else {
    texture->elements = resource->res.linear.sizeInBytes / ((size_t)format.x / 8);
  }
  texture->bits = format.x;
  texture->kind = format.f;
  *object = (cudaTextureObject_t)(size_t)texture;
  return cudaSuccess;
}

static inline cudaError_t cudaDeviceSynchronize(void) { return cudaSuccess; }
static inline cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  *stream = NULL;
  return cudaSuccess;
}
#define cudaStreamDefault 0
#define cudaStreamNonBlocking 1
static inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  (void)flags;
  return cudaStreamCreate(stream);
}
static inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  (void)stream;
  return cudaSuccess;
}
static inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  (void)stream;
  return cudaSuccess;
}

enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone = 0 };
static inline cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus* status) {
  (void)stream;
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

/* Events: what precedes them has ended when they are recorded. Those without timing are null. */
#define cudaEventDefault 0
#define cudaEventDisableTiming 2
static inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = flags & cudaEventDisableTiming ? NULL : (cudaEvent_t)calloc(1, sizeof(struct cugen_event));
  return *event == NULL && !(flags & cudaEventDisableTiming) ? cudaErrorMemoryAllocation : cudaSuccess;
}
static inline cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
static inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
  free(event);
  return cudaSuccess;
}
static inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  struct timespec now;
  (void)stream;
  if (event == NULL) return cudaSuccess;
  timespec_get(&now, TIME_UTC);
  event->milliseconds = (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
  return cudaSuccess;
}
static inline cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  (void)event;
  return cudaSuccess;
}
static inline cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (begin == NULL || end == NULL) return cudaErrorInvalidValue;
  *milliseconds = (float)(end->milliseconds - begin->milliseconds);
  return cudaSuccess;
}
static inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  (void)stream;
  (void)event;
  (void)flags;
  return cudaSuccess;
}

static inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
static inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
static inline cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidValue; }
static inline cudaError_t cudaDeviceGetAttribute(int* value, enum cudaDeviceAttr attribute, int device) {
  (void)device;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = 1024; return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = 48 * 1024; return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = 227 * 1024; return cudaSuccess;
    case cudaDevAttrMultiProcessorCount: *value = 1; return cudaSuccess;
    case cudaDevAttrMemoryClockRate: /* unknown, as the other */
    case cudaDevAttrGlobalMemoryBusWidth: *value = 0; return cudaSuccess;
  }
  return cudaErrorInvalidValue;
}

struct cudaDeviceProp {
  char name[256];
};
static inline cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp* properties, int device) {
  strcpy(properties->name, "the CPU");
  return device == 0 ? cudaSuccess : cudaErrorInvalidValue;
}

#ifdef __cplusplus
}
#endif
