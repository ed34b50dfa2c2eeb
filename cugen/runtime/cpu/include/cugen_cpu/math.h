// CUDA's math functions where the C library lacks them; the rest come from <math.h>, which in C++ brings the overloads.
// Fast approximations (`__expf`) are exact here: a tolerance that holds for them holds for these.
#pragma once

namespace cugen {

constexpr double kPi = 3.14159265358979323846;

// sin(pi x): the argument is reduced exactly, so that large x keep their value.
inline double sin_pi(double x) {
  const double r = fmod(fabs(x), 2.0);
  const double half = r <= 1.0 ? r : r - 2.0;
  double value;
  if (half >= -0.5 && half <= 0.5) value = sin(kPi * half);
  else value = half > 0 ? sin(kPi * (1.0 - half)) : -sin(kPi * (1.0 + half));
  return x < 0 ? -value : value;
}

inline double cos_pi(double x) {
  const double r = fmod(fabs(x), 2.0);
  const double half = r <= 1.0 ? r : 2.0 - r;
  return half <= 0.25 ? cos(kPi * half) : half >= 0.75 ? -cos(kPi * (1.0 - half)) : sin(kPi * (0.5 - half));
}

// The normal distribution's quantile by Newton's method on erfc, from the tail expansion.
inline double erf_inverse(double x) {
  if (!(fabs(x) < 1.0)) return fabs(x) == 1.0 ? x * HUGE_VAL : NAN;
  const double l = log1p(-x * x), a = 2 / (kPi * 0.147) + l / 2;
  double y = copysign(sqrt(sqrt(a * a - l / 0.147) - a), x);
  for (int i = 0; i < 4; ++i) {
    const double error = x > 0.5 ? (1 - x) - erfc(y) : x < -0.5 ? erfc(-y) - (1 + x) : erf(y) - x;
    const double step = error * 0.88622692545275801365 * exp(y * y);
    y -= step / (1 + y * step);
  }
  return y;
}

// exp(x*x) erfc(x), by its continued fraction where the factors leave the range of a double.
inline double erfc_scaled(double x) {
  if (x < 20.0) return exp(x * x) * erfc(x);
  const double s = 1 / (x * x);
  return (1 - s / 2 * (1 - 3 * s / 2 * (1 - 5 * s / 2))) / (x * sqrt(kPi));
}

}  // namespace cugen

CUGEN_INLINE float max(float a, float b) { return __builtin_fmaxf(a, b); }
CUGEN_INLINE float min(float a, float b) { return __builtin_fminf(a, b); }
CUGEN_INLINE double max(double a, double b) { return __builtin_fmax(a, b); }
CUGEN_INLINE double min(double a, double b) { return __builtin_fmin(a, b); }
CUGEN_INLINE double max(float a, double b) { return __builtin_fmax(a, b); }
CUGEN_INLINE double min(float a, double b) { return __builtin_fmin(a, b); }
CUGEN_INLINE double max(double a, float b) { return __builtin_fmax(a, b); }
CUGEN_INLINE double min(double a, float b) { return __builtin_fmin(a, b); }

CUGEN_INLINE double rsqrt(double x) { return 1.0 / sqrt(x); }
CUGEN_INLINE float rsqrtf(float x) { return static_cast<float>(1.0 / sqrt(static_cast<double>(x))); }
CUGEN_INLINE double rcbrt(double x) { return 1.0 / cbrt(x); }
CUGEN_INLINE float rcbrtf(float x) { return static_cast<float>(1.0 / cbrt(static_cast<double>(x))); }
CUGEN_INLINE double rhypot(double x, double y) { return 1.0 / hypot(x, y); }
CUGEN_INLINE float rhypotf(float x, float y) { return static_cast<float>(1.0 / hypot(static_cast<double>(x), y)); }
CUGEN_INLINE double fdivide(double x, double y) { return x / y; }
CUGEN_INLINE float fdividef(float x, float y) { return x / y; }

#define CUGEN_BOTH(name, expression)                              \
  inline double name(double x) { return (expression); }           \
  inline float name##f(float x) { return static_cast<float>(name(static_cast<double>(x))); }
CUGEN_BOTH(sinpi, cugen::sin_pi(x))
CUGEN_BOTH(cospi, cugen::cos_pi(x))
CUGEN_BOTH(normcdf, 0.5 * erfc(-x * 0.70710678118654752440))
CUGEN_BOTH(erfinv, cugen::erf_inverse(x))
CUGEN_BOTH(erfcx, cugen::erfc_scaled(x))
#undef CUGEN_BOTH

#if !defined(__GLIBC__)
inline void sincos(double x, double* sine, double* cosine) { *sine = sin(x), *cosine = cos(x); }
inline void sincosf(float x, float* sine, float* cosine) { *sine = sinf(x), *cosine = cosf(x); }
inline double exp10(double x) { return pow(10.0, x); }
inline float exp10f(float x) { return powf(10.0f, x); }
#endif
inline void sincospi(double x, double* sine, double* cosine) { *sine = sinpi(x), *cosine = cospi(x); }
inline void sincospif(float x, float* sine, float* cosine) { *sine = sinpif(x), *cosine = cospif(x); }

CUGEN_INLINE double norm3d(double a, double b, double c) { return hypot(hypot(a, b), c); }
CUGEN_INLINE float norm3df(float a, float b, float c) { return static_cast<float>(norm3d(a, b, c)); }
CUGEN_INLINE double norm4d(double a, double b, double c, double d) { return hypot(hypot(a, b), hypot(c, d)); }
CUGEN_INLINE float norm4df(float a, float b, float c, float d) { return static_cast<float>(norm4d(a, b, c, d)); }
template <class T>
inline double cugen_norm(int count, const T* values) {
  double length = 0;
  for (int i = 0; i < count; ++i) length = hypot(length, static_cast<double>(values[i]));
  return length;
}
inline double norm(int count, const double* values) { return cugen_norm(count, values); }
inline float normf(int count, const float* values) { return static_cast<float>(cugen_norm(count, values)); }

CUGEN_INLINE float __expf(float x) { return expf(x); }
CUGEN_INLINE float __exp10f(float x) { return exp10f(x); }
CUGEN_INLINE float __logf(float x) { return logf(x); }
CUGEN_INLINE float __log2f(float x) { return log2f(x); }
CUGEN_INLINE float __log10f(float x) { return log10f(x); }
CUGEN_INLINE float __powf(float x, float y) { return powf(x, y); }
CUGEN_INLINE float __sinf(float x) { return sinf(x); }
CUGEN_INLINE float __cosf(float x) { return cosf(x); }
CUGEN_INLINE float __tanf(float x) { return tanf(x); }
CUGEN_INLINE void __sincosf(float x, float* sine, float* cosine) { sincosf(x, sine, cosine); }
CUGEN_INLINE float __fdividef(float x, float y) { return x / y; }
CUGEN_INLINE float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
CUGEN_INLINE float __frsqrt_rn(float x) { return rsqrtf(x); }

// Round to nearest, the host's default mode; -ffp-contract=off prevents contraction.
CUGEN_INLINE float __fadd_rn(float x, float y) { return x + y; }
CUGEN_INLINE float __fsub_rn(float x, float y) { return x - y; }
CUGEN_INLINE float __fmul_rn(float x, float y) { return x * y; }
CUGEN_INLINE float __fdiv_rn(float x, float y) { return x / y; }
CUGEN_INLINE float __frcp_rn(float x) { return 1.0f / x; }
CUGEN_INLINE float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
CUGEN_INLINE float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
CUGEN_INLINE double __dadd_rn(double x, double y) { return x + y; }
CUGEN_INLINE double __dsub_rn(double x, double y) { return x - y; }
CUGEN_INLINE double __dmul_rn(double x, double y) { return x * y; }
CUGEN_INLINE double __ddiv_rn(double x, double y) { return x / y; }
CUGEN_INLINE double __drcp_rn(double x) { return 1.0 / x; }
CUGEN_INLINE double __dsqrt_rn(double x) { return __builtin_sqrt(x); }
CUGEN_INLINE double __fma_rn(double x, double y, double z) { return __builtin_fma(x, y, z); }
