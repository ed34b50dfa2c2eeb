// Substitute for the toolkit's header.
#pragma once

#include "cugen_cpu.h"

#include "cuda_runtime_api.h"
#include "cugen_cpu/tensor_map_encoding.h"

template <class T>
inline cudaError_t cudaMalloc(T** pointer, size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(pointer), bytes);
}
template <class T>
inline cudaError_t cudaMallocHost(T** pointer, size_t bytes) {
  return cudaMalloc(pointer, bytes);
}
template <class T>
inline cudaError_t cudaHostAlloc(T** pointer, size_t bytes, unsigned flags) {
  return cudaHostAlloc(reinterpret_cast<void**>(pointer), bytes, flags);
}
template <class T>
inline cudaError_t cudaMallocManaged(T** pointer, size_t bytes, unsigned = cudaMemAttachGlobal) {
  return cudaMalloc(pointer, bytes);
}
template <class T>
inline cudaError_t cudaHostGetDevicePointer(T** pointer, void* host, unsigned flags) {
  return cudaHostGetDevicePointer(reinterpret_cast<void**>(pointer), host, flags);
}
template <class Function>
inline cudaError_t cudaFuncSetAttribute(Function*, cudaFuncAttribute, int) {
  return cudaSuccess;
}
template <class Function>
inline cudaError_t cudaFuncSetCacheConfig(Function*, cudaFuncCache) {
  return cudaSuccess;
}
template <class Function>
inline cudaError_t cudaFuncSetSharedMemConfig(Function*, cudaSharedMemConfig) {
  return cudaSuccess;
}
// One SM, on which blocks run one after another.
template <class Function>
inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Function*, int, size_t) {
  *blocks = 1;
  return cudaSuccess;
}
template <class T>
inline cudaChannelFormatDesc cudaCreateChannelDesc() {
  return {8 * int(sizeof(T)), 0, 0, 0, cugen::channel_kind<T>()};
}
inline cudaChannelFormatDesc cudaCreateChannelDescHalf() { return {16, 0, 0, 0, cudaChannelFormatKindFloat}; }
template <class T>
inline cudaError_t cudaMemcpyToSymbolAsync(T& symbol, const void* from, size_t bytes, size_t offset,
                                           cudaMemcpyKind kind, cudaStream_t stream) {
  char* const start = const_cast<char*>(reinterpret_cast<const volatile char*>(&symbol));
  return cudaMemcpyAsync(start + offset, from, bytes, kind, stream);
}
