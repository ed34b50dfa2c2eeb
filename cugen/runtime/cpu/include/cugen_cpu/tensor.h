// Tensor core MMA, in place of the inline PTX of a .cu. A warp collective whose last lane computes the accumulators of all,
// in the order of k, with one rounding per FMA.
#pragma once

namespace cugen {

// Fragments of one lane, in the layout of mma.m16n8k16 for .f64 (PTX ISA).
struct MmaFragments {
  double *upper, *lower;
  const double *a, *b;
};

inline void mma(unsigned k_extent, double* upper, double* lower, const double* a, const double* b, int line) {
  const MmaFragments fragments = {upper, lower, a, b};
  warp_collective(Collective::mma, 0xffffffffu, reinterpret_cast<uint64_t>(&fragments), k_extent, 32, line);
}

}  // namespace cugen

#define CUGEN_MMA(k_extent)                                                                                \
  inline void mma_m16n8k##k_extent(double* upper, double* lower, const double (&a)[k_extent / 2],          \
                                   const double (&b)[k_extent / 4], int line = __builtin_LINE()) {         \
    cugen::mma(k_extent, upper, lower, a, b, line);                                                        \
  }
#define CUGEN_MMA_M16N8K16
CUGEN_MMA(16)
#define CUGEN_MMA_M16N8K8
CUGEN_MMA(8)
#define CUGEN_MMA_M16N8K4
CUGEN_MMA(4)
#undef CUGEN_MMA
