// Floating-point formats below 32 bits: round-to-nearest-even from double in integer arithmetic, and widening.
#pragma once

namespace cugen {

struct Format {
  int exponent_bits;
  int mantissa_bits;
  unsigned largest;   // code of the largest finite value
  unsigned overflow;  // code of larger magnitudes and infinity
  unsigned nan;
};

constexpr Format kHalf = {5, 10, 0x7bff, 0x7c00, 0x7fff};
constexpr Format kBFloat16 = {8, 7, 0x7f7f, 0x7f80, 0x7fff};
constexpr Format kFloat8E4M3 = {4, 3, 0x7e, 0x7e, 0x7f};  // conversions saturate to finite values
constexpr Format kFloat8E5M2 = {5, 2, 0x7b, 0x7b, 0x7f};

constexpr uint64_t kDoubleInfinity = 0x7ffull << 52;

// A single rounding: exact for float and int32 inputs widened to double.
inline unsigned encode(const Format& format, double value) {
  const uint64_t bits = bit_cast<uint64_t>(value);
  const uint64_t magnitude = bits & ~(1ull << 63);
  const int width = format.exponent_bits + format.mantissa_bits;
  const unsigned sign = static_cast<unsigned>(bits >> 63) << width;
  if (magnitude > kDoubleInfinity) return format.nan;
  if (magnitude == kDoubleInfinity) return sign | format.overflow;

  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(magnitude >> 52) - 1023;
  const bool subnormal = exponent < 1 - bias;
  const int shift = 52 - format.mantissa_bits + (subnormal ? 1 - bias - exponent : 0);
  if (shift > 53) return sign;  // less than half of the smallest subnormal
  const uint64_t significand = (magnitude & ((1ull << 52) - 1)) | 1ull << 52;
  const uint64_t half = 1ull << (shift - 1);
  const uint64_t remainder = significand & (2 * half - 1);
  uint64_t code = significand >> shift;
  code += remainder > half || (remainder == half && (code & 1));
  // The leading bit of a normal number adds one to the exponent field, hence the one less.
  if (!subnormal) code += static_cast<uint64_t>(exponent + bias - 1) << format.mantissa_bits;
  return sign | (code > format.largest ? format.overflow : static_cast<unsigned>(code));
}

// Exact: every value of these formats is a float. Codes above `largest` are infinity where the format has one, or NaN.
inline float decode(const Format& format, unsigned code) {
  const int width = format.exponent_bits + format.mantissa_bits;
  const unsigned sign = (code >> width & 1u) << 31;
  const unsigned magnitude = code & ((1u << width) - 1);
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  if (magnitude > format.largest) {
    const bool infinite = magnitude == (1u << width) - (1u << format.mantissa_bits);  // mantissa 0, exponent all ones
    return bit_cast<float>(sign | (infinite ? 0x7f800000u : 0x7fc00000u));
  }
  const unsigned exponent = magnitude >> format.mantissa_bits;
  const unsigned mantissa = magnitude & ((1u << format.mantissa_bits) - 1);
  if (exponent != 0)
    return bit_cast<float>(sign | (exponent + 127u - static_cast<unsigned>(bias)) << 23 |
                           mantissa << (23 - format.mantissa_bits));
  // The smallest bfloat16 is below the smallest normal float, so the scale is applied as a double.
  const double scale = bit_cast<double>(static_cast<uint64_t>(1024 - bias - format.mantissa_bits) << 52);
  return bit_cast<float>(sign | bit_cast<uint32_t>(static_cast<float>(mantissa * scale)));
}

}  // namespace cugen

// Arithmetic on a 16-bit type and its pair. A sum, product, quotient or root of two, taken in float and rounded again,
// is correctly rounded, because a float has more than twice the digits.
#define CUGEN_NARROW_TYPE(name, raw_format)                                                             \
  struct __attribute__((aligned(2))) name {                                                             \
    unsigned short __x;                                                                                 \
    name() = default;                                                                                   \
    CUGEN_INLINE name(float value) : __x(static_cast<unsigned short>(cugen::encode(raw_format, value))) {} \
    CUGEN_INLINE name(double value) : __x(static_cast<unsigned short>(cugen::encode(raw_format, value))) {} \
    CUGEN_INLINE name(int value) : name(static_cast<double>(value)) {}                                  \
    CUGEN_INLINE name(unsigned int value) : name(static_cast<double>(value)) {}                         \
    CUGEN_INLINE name(short value) : name(static_cast<double>(value)) {}                                \
    CUGEN_INLINE name(unsigned short value) : name(static_cast<double>(value)) {}                       \
    CUGEN_INLINE operator float() const { return cugen::decode(raw_format, __x); }                      \
  };

#define CUGEN_NARROW_OPERATORS(T)                                                                       \
  CUGEN_INLINE T operator+(T a, T b) { return T(float(a) + float(b)); }                                 \
  CUGEN_INLINE T operator-(T a, T b) { return T(float(a) - float(b)); }                                 \
  CUGEN_INLINE T operator*(T a, T b) { return T(float(a) * float(b)); }                                 \
  CUGEN_INLINE T operator/(T a, T b) { return T(float(a) / float(b)); }                                 \
  CUGEN_INLINE T& operator+=(T& a, T b) { return a = a + b; }                                           \
  CUGEN_INLINE T& operator-=(T& a, T b) { return a = a - b; }                                           \
  CUGEN_INLINE T& operator*=(T& a, T b) { return a = a * b; }                                           \
  CUGEN_INLINE T& operator/=(T& a, T b) { return a = a / b; }                                           \
  CUGEN_INLINE T operator+(T a) { return a; }                                                           \
  CUGEN_INLINE T operator-(T a) { a.__x ^= 0x8000; return a; }                                          \
  CUGEN_INLINE bool operator==(T a, T b) { return float(a) == float(b); }                               \
  CUGEN_INLINE bool operator!=(T a, T b) { return float(a) != float(b); }                               \
  CUGEN_INLINE bool operator<(T a, T b) { return float(a) < float(b); }                                 \
  CUGEN_INLINE bool operator<=(T a, T b) { return float(a) <= float(b); }                               \
  CUGEN_INLINE bool operator>(T a, T b) { return float(a) > float(b); }                                 \
  CUGEN_INLINE bool operator>=(T a, T b) { return float(a) >= float(b); }

#define CUGEN_NARROW_FUNCTIONS(T)                                                                       \
  CUGEN_INLINE T __hadd(T a, T b) { return a + b; }                                                     \
  CUGEN_INLINE T __hsub(T a, T b) { return a - b; }                                                     \
  CUGEN_INLINE T __hmul(T a, T b) { return a * b; }                                                     \
  CUGEN_INLINE T __hdiv(T a, T b) { return a / b; }                                                     \
  CUGEN_INLINE T __hadd_rn(T a, T b) { return a + b; }                                                  \
  CUGEN_INLINE T __hsub_rn(T a, T b) { return a - b; }                                                  \
  CUGEN_INLINE T __hmul_rn(T a, T b) { return a * b; }                                                  \
  CUGEN_INLINE T __hfma(T a, T b, T c) { return T(__builtin_fma(double(float(a)), double(float(b)), double(float(c)))); } \
  CUGEN_INLINE T __hneg(T a) { return -a; }                                                             \
  CUGEN_INLINE T __habs(T a) { a.__x &= 0x7fff; return a; }                                             \
  CUGEN_INLINE T __hmax(T a, T b) { return T(__builtin_fmaxf(float(a), float(b))); }                    \
  CUGEN_INLINE T __hmin(T a, T b) { return T(__builtin_fminf(float(a), float(b))); }                    \
  CUGEN_INLINE bool __heq(T a, T b) { return a == b; }                                                  \
  CUGEN_INLINE bool __hne(T a, T b) { return a < b || a > b; }                                          \
  CUGEN_INLINE bool __hlt(T a, T b) { return a < b; }                                                   \
  CUGEN_INLINE bool __hle(T a, T b) { return a <= b; }                                                  \
  CUGEN_INLINE bool __hgt(T a, T b) { return a > b; }                                                   \
  CUGEN_INLINE bool __hge(T a, T b) { return a >= b; }                                                  \
  CUGEN_INLINE bool __hisnan(T a) { return float(a) != float(a); }                                      \
  CUGEN_INLINE int __hisinf(T a) { return __builtin_isinf_sign(float(a)); }                             \
  CUGEN_INLINE T hexp(T a) { return T(exp(double(float(a)))); }                                         \
  CUGEN_INLINE T hexp2(T a) { return T(exp2(double(float(a)))); }                                       \
  CUGEN_INLINE T hlog(T a) { return T(log(double(float(a)))); }                                         \
  CUGEN_INLINE T hlog2(T a) { return T(log2(double(float(a)))); }                                       \
  CUGEN_INLINE T hsqrt(T a) { return T(sqrt(double(float(a)))); }                                       \
  CUGEN_INLINE T hrsqrt(T a) { return T(1.0 / sqrt(double(float(a)))); }                                \
  CUGEN_INLINE T hrcp(T a) { return T(1.0 / double(float(a))); }                                        \
  CUGEN_INLINE T hsin(T a) { return T(sin(double(float(a)))); }                                         \
  CUGEN_INLINE T hcos(T a) { return T(cos(double(float(a)))); }                                         \
  CUGEN_INLINE T htanh(T a) { return T(tanh(double(float(a)))); }                                       \
  CUGEN_INLINE T hfloor(T a) { return T(floorf(float(a))); }                                            \
  CUGEN_INLINE T hceil(T a) { return T(ceilf(float(a))); }                                              \
  CUGEN_INLINE T hrint(T a) { return T(rintf(float(a))); }                                              \
  CUGEN_INLINE T htrunc(T a) { return T(truncf(float(a))); }                                            \
  CUGEN_ATOMIC(atomicAdd, T, old + value)

#define CUGEN_NARROW_PAIR(T2, T)                                                                        \
  struct __attribute__((aligned(4))) T2 {                                                               \
    T x, y;                                                                                             \
    T2() = default;                                                                                     \
    CUGEN_INLINE T2(T x, T y) : x(x), y(y) {}                                                           \
  };                                                                                                    \
  CUGEN_INLINE T2 operator+(T2 a, T2 b) { return {a.x + b.x, a.y + b.y}; }                              \
  CUGEN_INLINE T2 operator-(T2 a, T2 b) { return {a.x - b.x, a.y - b.y}; }                              \
  CUGEN_INLINE T2 operator*(T2 a, T2 b) { return {a.x * b.x, a.y * b.y}; }                              \
  CUGEN_INLINE T2 operator/(T2 a, T2 b) { return {a.x / b.x, a.y / b.y}; }                              \
  CUGEN_INLINE T2 __hadd2(T2 a, T2 b) { return a + b; }                                                 \
  CUGEN_INLINE T2 __hsub2(T2 a, T2 b) { return a - b; }                                                 \
  CUGEN_INLINE T2 __hmul2(T2 a, T2 b) { return a * b; }                                                 \
  CUGEN_INLINE T2 __h2div(T2 a, T2 b) { return a / b; }                                                 \
  CUGEN_INLINE T2 __hfma2(T2 a, T2 b, T2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }  \
  CUGEN_INLINE T2 __hneg2(T2 a) { return {-a.x, -a.y}; }                                                \
  CUGEN_INLINE T2 __habs2(T2 a) { return {__habs(a.x), __habs(a.y)}; }                                  \
  CUGEN_INLINE T2 __hmax2(T2 a, T2 b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }                  \
  CUGEN_INLINE T2 __hmin2(T2 a, T2 b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }                  \
  CUGEN_INLINE T2 h2exp(T2 a) { return {hexp(a.x), hexp(a.y)}; }                                        \
  CUGEN_INLINE float __low2float(T2 a) { return float(a.x); }                                           \
  CUGEN_INLINE float __high2float(T2 a) { return float(a.y); }                                          \
  CUGEN_ATOMIC(atomicAdd, T2, old + value)
