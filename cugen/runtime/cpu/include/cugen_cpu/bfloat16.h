// cuda_bf16.h for a host compiler.
#pragma once

#include "narrow.h"

CUGEN_NARROW_TYPE(__nv_bfloat16, cugen::kBFloat16)
CUGEN_NARROW_OPERATORS(__nv_bfloat16)
CUGEN_NARROW_FUNCTIONS(__nv_bfloat16)
CUGEN_NARROW_PAIR(__nv_bfloat162, __nv_bfloat16)

CUGEN_INLINE __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
CUGEN_INLINE __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }
CUGEN_INLINE __nv_bfloat16 __double2bfloat16(double x) { return __nv_bfloat16(x); }
// By reference: g++ attributes the copy of an argument to no line.
CUGEN_INLINE float __bfloat162float(const __nv_bfloat16& x) { return float(x); }
CUGEN_INLINE __nv_bfloat16 __int2bfloat16_rn(int x) { return __nv_bfloat16(x); }
CUGEN_INLINE __nv_bfloat16 __uint2bfloat16_rn(unsigned int x) { return __nv_bfloat16(x); }
CUGEN_INLINE __nv_bfloat16 __short2bfloat16_rn(short x) { return __nv_bfloat16(x); }
CUGEN_INLINE __nv_bfloat16 __ushort2bfloat16_rn(unsigned short x) { return __nv_bfloat16(x); }
CUGEN_INLINE int __bfloat162int_rz(__nv_bfloat16 x) { return __float2int_rz(float(x)); }
CUGEN_INLINE int __bfloat162int_rn(__nv_bfloat16 x) { return __float2int_rn(float(x)); }
CUGEN_INLINE unsigned int __bfloat162uint_rz(__nv_bfloat16 x) { return __float2uint_rz(float(x)); }
CUGEN_INLINE unsigned int __bfloat162uint_rn(__nv_bfloat16 x) { return __float2uint_rn(float(x)); }
CUGEN_INLINE long long __bfloat162ll_rz(__nv_bfloat16 x) { return __float2ll_rz(float(x)); }
CUGEN_INLINE unsigned long long __bfloat162ull_rz(__nv_bfloat16 x) { return __float2ull_rz(float(x)); }
CUGEN_INLINE short __bfloat16_as_short(__nv_bfloat16 x) { return static_cast<short>(x.__x); }
CUGEN_INLINE unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.__x; }
CUGEN_INLINE __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
  __nv_bfloat16 value;
  value.__x = bits;
  return value;
}
CUGEN_INLINE __nv_bfloat16 __short_as_bfloat16(short bits) { return __ushort_as_bfloat16(static_cast<unsigned short>(bits)); }

using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

CUGEN_INLINE __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
CUGEN_INLINE __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
CUGEN_INLINE __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 x) { return {x, x}; }
CUGEN_INLINE __nv_bfloat162 __float2bfloat162_rn(float x) { return {__nv_bfloat16(x), __nv_bfloat16(x)}; }
CUGEN_INLINE __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {__nv_bfloat16(x), __nv_bfloat16(y)}; }
CUGEN_INLINE __nv_bfloat162 __float22bfloat162_rn(float2 v) { return {__nv_bfloat16(v.x), __nv_bfloat16(v.y)}; }
CUGEN_INLINE float2 __bfloat1622float2(__nv_bfloat162 v) { return {float(v.x), float(v.y)}; }
CUGEN_INLINE __nv_bfloat16 __low2bfloat16(__nv_bfloat162 v) { return v.x; }
CUGEN_INLINE __nv_bfloat16 __high2bfloat16(__nv_bfloat162 v) { return v.y; }
