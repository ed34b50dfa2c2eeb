// Products on tensor cores, in place of the inline PTX that a .cu has for them. The lanes of a warp meet, and the last to
// come adds up the products of all, in the order of k, each sum rounded once.
#pragma once

namespace cugen {

// What one lane hands over; rows and columns lie as in the PTX manual's mma.m16n8k16 for .f64.
struct TileParts {
  double *upper, *lower;
  const double *a, *b;
};

inline void multiply_tiles(unsigned depth, double* upper, double* lower, const double* a, const double* b, int line) {
  const TileParts own = {upper, lower, a, b};
  warp_collective(Collective::multiply_tiles, 0xffffffffu, reinterpret_cast<uint64_t>(&own), depth, 32, line);
}

}  // namespace cugen

#define CUGEN_MULTIPLY(depth)                                                                              \
  inline void multiply_16x8x##depth(double* upper, double* lower, const double (&a)[depth / 2],            \
                                    const double (&b)[depth / 4], int line = __builtin_LINE()) {           \
    cugen::multiply_tiles(depth, upper, lower, a, b, line);                                                \
  }
#define CUGEN_MULTIPLY_16X8X16
CUGEN_MULTIPLY(16)
#define CUGEN_MULTIPLY_16X8X8
CUGEN_MULTIPLY(8)
#define CUGEN_MULTIPLY_16X8X4
CUGEN_MULTIPLY(4)
#undef CUGEN_MULTIPLY
