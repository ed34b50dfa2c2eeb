// cuda_fp16.h for a host compiler.
#pragma once

#include "narrow.h"

CUGEN_NARROW_TYPE(__half, cugen::kHalf)
CUGEN_NARROW_OPERATORS(__half)
CUGEN_NARROW_FUNCTIONS(__half)
CUGEN_NARROW_PAIR(__half2, __half)

CUGEN_INLINE __half __float2half(float x) { return __half(x); }
CUGEN_INLINE __half __float2half_rn(float x) { return __half(x); }
CUGEN_INLINE __half __double2half(double x) { return __half(x); }
// By reference: g++ attributes the copy of an argument to no line.
CUGEN_INLINE float __half2float(const __half& x) { return float(x); }
CUGEN_INLINE __half __int2half_rn(int x) { return __half(x); }
CUGEN_INLINE __half __uint2half_rn(unsigned int x) { return __half(x); }
CUGEN_INLINE __half __short2half_rn(short x) { return __half(x); }
CUGEN_INLINE __half __ushort2half_rn(unsigned short x) { return __half(x); }
CUGEN_INLINE int __half2int_rz(__half x) { return __float2int_rz(float(x)); }
CUGEN_INLINE int __half2int_rn(__half x) { return __float2int_rn(float(x)); }
CUGEN_INLINE unsigned int __half2uint_rz(__half x) { return __float2uint_rz(float(x)); }
CUGEN_INLINE unsigned int __half2uint_rn(__half x) { return __float2uint_rn(float(x)); }
CUGEN_INLINE long long __half2ll_rz(__half x) { return __float2ll_rz(float(x)); }
CUGEN_INLINE unsigned long long __half2ull_rz(__half x) { return __float2ull_rz(float(x)); }
CUGEN_INLINE short __half_as_short(__half x) { return static_cast<short>(x.__x); }
CUGEN_INLINE unsigned short __half_as_ushort(__half x) { return x.__x; }
CUGEN_INLINE __half __ushort_as_half(unsigned short bits) {
  __half value;
  value.__x = bits;
  return value;
}
CUGEN_INLINE __half __short_as_half(short bits) { return __ushort_as_half(static_cast<unsigned short>(bits)); }

using half = __half;
using half2 = __half2;

CUGEN_INLINE __half2 make_half2(__half x, __half y) { return {x, y}; }
CUGEN_INLINE __half2 __halves2half2(__half x, __half y) { return {x, y}; }
CUGEN_INLINE __half2 __half2half2(__half x) { return {x, x}; }
CUGEN_INLINE __half2 __float2half2_rn(float x) { return {__half(x), __half(x)}; }
CUGEN_INLINE __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
CUGEN_INLINE __half2 __float22half2_rn(float2 v) { return {__half(v.x), __half(v.y)}; }
CUGEN_INLINE float2 __half22float2(__half2 v) { return {float(v.x), float(v.y)}; }
CUGEN_INLINE __half __low2half(__half2 v) { return v.x; }
CUGEN_INLINE __half __high2half(__half2 v) { return v.y; }
CUGEN_INLINE __half2 __lowhigh2highlow(__half2 v) { return {v.y, v.x}; }
