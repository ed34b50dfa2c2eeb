// Loads and stores with a cache hint, and asynchronous copies, which here are done at once.
#pragma once

#define CUGEN_LOAD(name) \
  template <class T>     \
  CUGEN_INLINE T name(const T* address) { return *address; }
CUGEN_LOAD(__ldg)
CUGEN_LOAD(__ldca)
CUGEN_LOAD(__ldcg)
CUGEN_LOAD(__ldcs)
CUGEN_LOAD(__ldlu)
#undef CUGEN_LOAD

// Reads memory each time it is asked.
template <class T>
CUGEN_INLINE T __ldcv(const T* address) {
  if constexpr (std::is_arithmetic_v<T>) return *static_cast<const volatile T*>(address);
  else return *address;
}

#define CUGEN_STORE(name) \
  template <class T>      \
  CUGEN_INLINE void name(T* address, T value) { *address = value; }
CUGEN_STORE(__stwb)
CUGEN_STORE(__stcg)
CUGEN_STORE(__stcs)
CUGEN_STORE(__stwt)
#undef CUGEN_STORE

namespace cugen {

template <class T>
CUGEN_INLINE void copy_as(void* destination, const void* source) {
  *static_cast<T*>(destination) = *static_cast<const T*>(source);
}

}  // namespace cugen

// `zero_fill` of the `bytes` (4, 8 or 16) are not read, but written as zeros.
CUGEN_INLINE void __pipeline_memcpy_async(void* destination, const void* source, size_t bytes, size_t zero_fill = 0,
                                          int line = __builtin_LINE()) {
  const size_t skew = (reinterpret_cast<uintptr_t>(destination) | reinterpret_cast<uintptr_t>(source)) % bytes;
  if ((bytes != 4 && bytes != 8 && bytes != 16) || zero_fill > bytes || skew != 0)
    cugen::fail("misaligned", line, "__pipeline_memcpy_async copies 4, 8 or 16 bytes between addresses that are multiples");
  if (zero_fill != 0) {
    const char* const from = static_cast<const char*>(source);
    char* const to = static_cast<char*>(destination);
    for (size_t i = 0; i < bytes; ++i) to[i] = i < bytes - zero_fill ? from[i] : 0;
  } else if (bytes == 4) {
    cugen::copy_as<uint1>(destination, source);
  } else if (bytes == 8) {
    cugen::copy_as<uint2>(destination, source);
  } else {
    cugen::copy_as<uint4>(destination, source);
  }
}
CUGEN_INLINE void __pipeline_commit() {}
CUGEN_INLINE void __pipeline_wait_prior(size_t) {}
