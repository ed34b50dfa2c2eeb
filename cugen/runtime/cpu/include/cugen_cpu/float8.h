// cuda_fp8.h for a host compiler. Conversions to both types round to nearest even and saturate to finite values.
#pragma once

#include "bfloat16.h"
#include "half.h"

using __nv_fp8_storage_t = unsigned char;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

#define CUGEN_FLOAT8(name, format)                                                                        \
  struct name {                                                                                           \
    __nv_fp8_storage_t __x;                                                                               \
    name() = default;                                                                                     \
    CUGEN_INLINE explicit name(float value) : __x(static_cast<__nv_fp8_storage_t>(cugen::encode(format, value))) {}  \
    CUGEN_INLINE explicit name(double value) : __x(static_cast<__nv_fp8_storage_t>(cugen::encode(format, value))) {} \
    CUGEN_INLINE explicit name(__half value) : name(float(value)) {}                                      \
    CUGEN_INLINE explicit name(__nv_bfloat16 value) : name(float(value)) {}                               \
    CUGEN_INLINE explicit name(int value) : name(static_cast<double>(value)) {}                           \
    CUGEN_INLINE explicit name(unsigned int value) : name(static_cast<double>(value)) {}                  \
    CUGEN_INLINE explicit name(long long value) : name(static_cast<float>(value)) {}                      \
    CUGEN_INLINE explicit name(unsigned long long value) : name(static_cast<float>(value)) {}             \
    CUGEN_INLINE explicit operator float() const { return cugen::decode(format, __x); }                   \
    CUGEN_INLINE explicit operator double() const { return cugen::decode(format, __x); }                  \
    CUGEN_INLINE explicit operator __half() const { return __half(cugen::decode(format, __x)); }          \
    CUGEN_INLINE explicit operator __nv_bfloat16() const { return __nv_bfloat16(cugen::decode(format, __x)); } \
  };
CUGEN_FLOAT8(__nv_fp8_e4m3, cugen::kFloat8E4M3)
CUGEN_FLOAT8(__nv_fp8_e5m2, cugen::kFloat8E5M2)
#undef CUGEN_FLOAT8

CUGEN_INLINE __nv_fp8_storage_t __nv_cvt_double_to_fp8(double value, __nv_saturation_t saturation,
                                                       __nv_fp8_interpretation_t kind) {
  cugen::Format format = kind == __NV_E4M3 ? cugen::kFloat8E4M3 : cugen::kFloat8E5M2;
  if (saturation == __NV_NOSAT) format.overflow = kind == __NV_E4M3 ? 0x7f : 0x7c;
  return static_cast<__nv_fp8_storage_t>(cugen::encode(format, value));
}
CUGEN_INLINE __nv_fp8_storage_t __nv_cvt_float_to_fp8(float value, __nv_saturation_t saturation,
                                                      __nv_fp8_interpretation_t kind) {
  return __nv_cvt_double_to_fp8(value, saturation, kind);
}
