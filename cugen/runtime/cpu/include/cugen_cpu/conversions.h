// Saturating conversions, as in hardware, and bit casts.
//
// NaN as in the PTX ISA, cvt: zero where the source is narrower than f64 and the destination narrower than
// 64 bits, else the destination's top bit alone.
#pragma once

#include <limits>

namespace cugen {

template <class Integer, class Float>
CUGEN_INLINE Integer saturate(Float x) {
  constexpr int bits = static_cast<int>(sizeof(Integer)) * 8;
  constexpr bool is_signed = std::numeric_limits<Integer>::is_signed;
  constexpr Float above = static_cast<Float>(1ull << (bits - 2)) * (is_signed ? 2 : 4);
  constexpr Float lowest = is_signed ? -above : 0;
  if (x != x) return sizeof(Float) == 4 && bits == 32 ? 0 : static_cast<Integer>(1ull << (bits - 1));
  if (x >= above) return std::numeric_limits<Integer>::max();
  if (x <= lowest) return std::numeric_limits<Integer>::min();
  return static_cast<Integer>(x);
}

template <class To, class From>
CUGEN_INLINE To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

}  // namespace cugen

#define CUGEN_TO_INTEGER(source, suffix, name, integer)                                                               \
  CUGEN_INLINE integer name##_rn(source x) { return cugen::saturate<integer>(__builtin_nearbyint##suffix(x)); }       \
  CUGEN_INLINE integer name##_rz(source x) { return cugen::saturate<integer>(__builtin_trunc##suffix(x)); }           \
  CUGEN_INLINE integer name##_ru(source x) { return cugen::saturate<integer>(__builtin_ceil##suffix(x)); }            \
  CUGEN_INLINE integer name##_rd(source x) { return cugen::saturate<integer>(__builtin_floor##suffix(x)); }
CUGEN_TO_INTEGER(float, f, __float2int, int)
CUGEN_TO_INTEGER(float, f, __float2uint, unsigned int)
CUGEN_TO_INTEGER(float, f, __float2ll, long long)
CUGEN_TO_INTEGER(float, f, __float2ull, unsigned long long)
CUGEN_TO_INTEGER(double, , __double2int, int)
CUGEN_TO_INTEGER(double, , __double2uint, unsigned int)
CUGEN_TO_INTEGER(double, , __double2ll, long long)
CUGEN_TO_INTEGER(double, , __double2ull, unsigned long long)
#undef CUGEN_TO_INTEGER

CUGEN_INLINE float __int2float_rn(int x) { return static_cast<float>(x); }
CUGEN_INLINE float __uint2float_rn(unsigned int x) { return static_cast<float>(x); }
CUGEN_INLINE float __ll2float_rn(long long x) { return static_cast<float>(x); }
CUGEN_INLINE float __ull2float_rn(unsigned long long x) { return static_cast<float>(x); }
CUGEN_INLINE double __int2double_rn(int x) { return x; }
CUGEN_INLINE double __uint2double_rn(unsigned int x) { return x; }
CUGEN_INLINE double __ll2double_rn(long long x) { return static_cast<double>(x); }
CUGEN_INLINE double __ull2double_rn(unsigned long long x) { return static_cast<double>(x); }
CUGEN_INLINE float __double2float_rn(double x) { return static_cast<float>(x); }

CUGEN_INLINE int __float_as_int(float x) { return cugen::bit_cast<int>(x); }
CUGEN_INLINE unsigned int __float_as_uint(float x) { return cugen::bit_cast<unsigned int>(x); }
CUGEN_INLINE float __int_as_float(int x) { return cugen::bit_cast<float>(x); }
CUGEN_INLINE float __uint_as_float(unsigned int x) { return cugen::bit_cast<float>(x); }
CUGEN_INLINE long long __double_as_longlong(double x) { return cugen::bit_cast<long long>(x); }
CUGEN_INLINE double __longlong_as_double(long long x) { return cugen::bit_cast<double>(x); }
CUGEN_INLINE int __double2hiint(double x) { return static_cast<int>(__double_as_longlong(x) >> 32); }
CUGEN_INLINE int __double2loint(double x) { return static_cast<int>(__double_as_longlong(x)); }
CUGEN_INLINE double __hiloint2double(int high, int low) {
  return cugen::bit_cast<double>(static_cast<unsigned long long>(static_cast<unsigned>(high)) << 32 |
                                 static_cast<unsigned>(low));
}
