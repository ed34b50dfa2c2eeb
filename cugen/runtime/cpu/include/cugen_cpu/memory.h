// Loads and stores with a cache hint, and asynchronous copies.
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

// Volatile load. Its order tells it from the relaxed loads of atomics.
template <class T>
CUGEN_INLINE T __ldcv(const T* address) {
  if constexpr (std::is_arithmetic_v<T>) {
    T value;
    __atomic_load(address, &value, __ATOMIC_ACQUIRE);
    return value;
  } else {
    return *address;
  }
}

// The value is converted to the element's type, as by CUDA's overloads.
#define CUGEN_STORE(name)       \
  template <class T, class V>   \
  CUGEN_INLINE void name(T* address, const V& value) { *address = static_cast<T>(value); }
CUGEN_STORE(__stwb)
CUGEN_STORE(__stcg)
CUGEN_STORE(__stcs)
CUGEN_STORE(__stwt)
#undef CUGEN_STORE

// The helpers of targets without these functions, which are PTX.
template <typename T, int count>
struct Vector;

#define CUGEN_LOAD_PTX(name)       \
  template <int count, typename T> \
  CUGEN_INLINE Vector<T, count> name(const T* address) { return *reinterpret_cast<const Vector<T, count>*>(address); }
#define CUGEN_LOAD_CA_PTX
CUGEN_LOAD_PTX(load_ca_ptx)
#define CUGEN_LOAD_CG_PTX
CUGEN_LOAD_PTX(load_cg_ptx)
#define CUGEN_LOAD_CS_PTX
CUGEN_LOAD_PTX(load_cs_ptx)
#define CUGEN_LOAD_LU_PTX
CUGEN_LOAD_PTX(load_lu_ptx)
#undef CUGEN_LOAD_PTX

#define CUGEN_STORE_PTX(name)      \
  template <int count, typename T> \
  CUGEN_INLINE void name(T* address, const Vector<T, count>& value) { *reinterpret_cast<Vector<T, count>*>(address) = value; }
#define CUGEN_STORE_WB_PTX
CUGEN_STORE_PTX(store_wb_ptx)
#define CUGEN_STORE_CG_PTX
CUGEN_STORE_PTX(store_cg_ptx)
#define CUGEN_STORE_CS_PTX
CUGEN_STORE_PTX(store_cs_ptx)
#define CUGEN_STORE_WT_PTX
CUGEN_STORE_PTX(store_wt_ptx)
#undef CUGEN_STORE_PTX

namespace cugen {

// Reads the source at once and writes the destination when the thread waits for it. Until then the destination is all
// ones, NaN in every floating-point format, so that a missing wait is visible in the result.
template <class T>
CUGEN_INLINE void copy_async(void* destination, const void* source, size_t bytes) {
  char data[sizeof(T)] = {};
  if (bytes == sizeof(T)) {
    const T whole = *static_cast<const T*>(source);
    memcpy(data, &whole, sizeof(T));
  } else {
    for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<const char*>(source)[i];
  }
  T ones;
  memset(&ones, 0xff, sizeof(T));
  *static_cast<T*>(destination) = ones;
  enqueue_copy(destination, data, sizeof(T));
}

}  // namespace cugen

// The last `zero_fill` of the `bytes` (4, 8 or 16) are written as zeros.
CUGEN_INLINE void __pipeline_memcpy_async(void* destination, const void* source, size_t bytes, size_t zero_fill = 0,
                                          int line = __builtin_LINE()) {
  if ((bytes != 4 && bytes != 8 && bytes != 16) || zero_fill > bytes)
    cugen::fail("undefined", line, "__pipeline_memcpy_async copies 4, 8 or 16 bytes");
  if (reinterpret_cast<uintptr_t>(source) % bytes != 0) cugen::fail_misaligned("asynchronous copy", source, bytes, line);
  if (reinterpret_cast<uintptr_t>(destination) % bytes != 0)
    cugen::fail_misaligned("asynchronous copy", destination, bytes, line);
  if (bytes == 4) {
    cugen::copy_async<uint1>(destination, source, bytes - zero_fill);
  } else if (bytes == 8) {
    cugen::copy_async<uint2>(destination, source, bytes - zero_fill);
  } else {
    cugen::copy_async<uint4>(destination, source, bytes - zero_fill);
  }
}
CUGEN_INLINE void __pipeline_commit() { cugen::commit_copies(); }
CUGEN_INLINE void __pipeline_wait_prior(size_t pending) { cugen::await_copies(pending); }
