// Integer intrinsics.
#pragma once

CUGEN_INLINE int __popc(unsigned int x) { return __builtin_popcount(x); }
CUGEN_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
CUGEN_INLINE int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
CUGEN_INLINE int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x)); }
CUGEN_INLINE int __ffs(int x) { return __builtin_ffs(x); }
CUGEN_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }

CUGEN_INLINE unsigned int __brev(unsigned int x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(x);
}
CUGEN_INLINE unsigned long long __brevll(unsigned long long x) {
  return static_cast<unsigned long long>(__brev(static_cast<unsigned>(x))) << 32 | __brev(static_cast<unsigned>(x >> 32));
}

CUGEN_INLINE int __mulhi(int a, int b) { return static_cast<int>(static_cast<long long>(a) * b >> 32); }
CUGEN_INLINE unsigned int __umulhi(unsigned int a, unsigned int b) {
  return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}
CUGEN_INLINE long long __mul64hi(long long a, long long b) {
  return static_cast<long long>(static_cast<__int128>(a) * b >> 64);
}
CUGEN_INLINE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
CUGEN_INLINE int __mul24(int a, int b) {
  const long long product = static_cast<long long>(a << 8 >> 8) * (b << 8 >> 8);
  return static_cast<int>(product);
}
CUGEN_INLINE unsigned int __umul24(unsigned int a, unsigned int b) { return (a & 0xffffffu) * (b & 0xffffffu); }
CUGEN_INLINE unsigned int __sad(int a, int b, unsigned int c) {
  return (a > b ? static_cast<unsigned>(a) - static_cast<unsigned>(b) : static_cast<unsigned>(b) - static_cast<unsigned>(a)) + c;
}
CUGEN_INLINE unsigned int __usad(unsigned int a, unsigned int b, unsigned int c) { return (a > b ? a - b : b - a) + c; }

CUGEN_INLINE unsigned int __byte_perm(unsigned int low, unsigned int high, unsigned int selector) {
  const unsigned long long bytes = static_cast<unsigned long long>(high) << 32 | low;
  unsigned int result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned pick = selector >> 4 * i & 0xfu;
    unsigned byte = static_cast<unsigned>(bytes >> 8 * (pick & 7u)) & 0xffu;
    if (pick & 8u) byte = byte & 0x80u ? 0xffu : 0u;
    result |= byte << 8 * i;
  }
  return result;
}
CUGEN_INLINE unsigned int __funnelshift_l(unsigned int low, unsigned int high, unsigned int shift) {
  return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) << (shift & 31u) >> 32);
}
CUGEN_INLINE unsigned int __funnelshift_r(unsigned int low, unsigned int high, unsigned int shift) {
  return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) >> (shift & 31u));
}

CUGEN_INLINE int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; ++i) c += static_cast<signed char>(a >> 8 * i) * static_cast<signed char>(b >> 8 * i);
  return c;
}
CUGEN_INLINE unsigned int __dp4a(unsigned int a, unsigned int b, unsigned int c) {
  for (int i = 0; i < 4; ++i) c += (a >> 8 * i & 0xffu) * (b >> 8 * i & 0xffu);
  return c;
}

// min and max for every pair of integer types that CUDA's overloads cover, with the usual conversions.
#define CUGEN_MIN_MAX(type)                                                   \
  CUGEN_INLINE type min(type a, type b) { return b < a ? b : a; }             \
  CUGEN_INLINE type max(type a, type b) { return a < b ? b : a; }
CUGEN_MIN_MAX(int)
CUGEN_MIN_MAX(unsigned int)
CUGEN_MIN_MAX(long)
CUGEN_MIN_MAX(unsigned long)
CUGEN_MIN_MAX(long long)
CUGEN_MIN_MAX(unsigned long long)
#undef CUGEN_MIN_MAX
#define CUGEN_MIN_MAX_MIXED(a_type, b_type, type)                                                                      \
  CUGEN_INLINE type min(a_type a, b_type b) { return min(static_cast<type>(a), static_cast<type>(b)); }                \
  CUGEN_INLINE type max(a_type a, b_type b) { return max(static_cast<type>(a), static_cast<type>(b)); }
CUGEN_MIN_MAX_MIXED(int, unsigned int, unsigned int)
CUGEN_MIN_MAX_MIXED(unsigned int, int, unsigned int)
CUGEN_MIN_MAX_MIXED(long long, unsigned long long, unsigned long long)
CUGEN_MIN_MAX_MIXED(unsigned long long, long long, unsigned long long)
#undef CUGEN_MIN_MAX_MIXED
CUGEN_INLINE unsigned int umin(unsigned int a, unsigned int b) { return min(a, b); }
CUGEN_INLINE unsigned int umax(unsigned int a, unsigned int b) { return max(a, b); }
CUGEN_INLINE long long llmin(long long a, long long b) { return min(a, b); }
CUGEN_INLINE long long llmax(long long a, long long b) { return max(a, b); }
