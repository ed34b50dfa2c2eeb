// The vector types with CUDA's sizes and alignments, and dim3.
#pragma once

#define CUGEN_VECTOR(name, type, align2, align4)                                                      \
  struct name##1 { type x; };                                                                         \
  struct __attribute__((aligned(align2))) name##2 { type x, y; };                                     \
  struct name##3 { type x, y, z; };                                                                   \
  struct __attribute__((aligned(align4))) name##4 { type x, y, z, w; };                               \
  CUGEN_INLINE name##1 make_##name##1(type x) { return {x}; }                                         \
  CUGEN_INLINE name##2 make_##name##2(type x, type y) { return {x, y}; }                              \
  CUGEN_INLINE name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }                   \
  CUGEN_INLINE name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

CUGEN_VECTOR(char, signed char, 2, 4)
CUGEN_VECTOR(uchar, unsigned char, 2, 4)
CUGEN_VECTOR(short, short, 4, 8)
CUGEN_VECTOR(ushort, unsigned short, 4, 8)
CUGEN_VECTOR(int, int, 8, 16)
CUGEN_VECTOR(uint, unsigned int, 8, 16)
CUGEN_VECTOR(long, long, 16, 16)
CUGEN_VECTOR(ulong, unsigned long, 16, 16)
CUGEN_VECTOR(longlong, long long, 16, 16)
CUGEN_VECTOR(ulonglong, unsigned long long, 16, 16)
CUGEN_VECTOR(float, float, 8, 16)
CUGEN_VECTOR(double, double, 16, 16)
#undef CUGEN_VECTOR

struct dim3 {
  unsigned int x, y, z;
  constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};
