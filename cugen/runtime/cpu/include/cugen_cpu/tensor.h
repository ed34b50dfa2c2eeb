// Matrix instructions of a warp, in place of the inline PTX of a .cu: warp collectives whose last lane computes the
// registers of all (runtime/tensor.h).
#pragma once

namespace cugen {

enum class Element : uint8_t { f64, tf32, f16, bf16, e4m3, e5m2, s8, u8 };

// Fragments of one lane in mma.m16n8k_extent (PTX ISA). The sums are double, int32_t for 8-bit integers, else float, to
// which `k_step` products are added at a time, with `sum_bits` below the leading one of the largest.
struct MmaFragments {
  unsigned k_extent, k_step;
  int sum_bits;
  Element a_type, b_type;
  void *upper, *lower;
  const void *a, *b;
};

inline void mma(const MmaFragments& fragments, int line) {
  warp_collective(Collective::mma, 0xffffffffu, reinterpret_cast<uint64_t>(&fragments), 0, 32, line);
}

// One lane in ldmatrix: the row at the address that it gives, and where its word of each matrix goes.
struct MatrixRow {
  uint4 row;
  unsigned* words;
};

// The lane that gives an address reads the row. Those of the other lanes must be valid too (PTX ISA, for sm_75).
CUGEN_INLINE void ldmatrix(Collective kind, unsigned count, unsigned* words, const void* row, int line) {
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0) fail_misaligned("row of ldmatrix", row, 16, line);
  require_shared("row of ldmatrix", row, line);
  MatrixRow given = {{}, words};
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  if (thread % 32 < 8 * count) given.row = *static_cast<const uint4*>(row);
  warp_collective(kind, 0xffffffffu, reinterpret_cast<uint64_t>(&given), count, 32, line);
}

// One lane in stmatrix: the row at the address that it gives, and its word of each matrix.
struct StoredMatrixRow {
  uint4 row;
  const unsigned* words;
};

// The lane that gives an address writes the row. Those of the other lanes must be valid too, as of ldmatrix.
CUGEN_INLINE void stmatrix(Collective kind, unsigned count, void* row, const unsigned* words, int line) {
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0) fail_misaligned("row of stmatrix", row, 16, line);
  require_shared("row of stmatrix", row, line);
  StoredMatrixRow given = {{}, words};
  warp_collective(kind, 0xffffffffu, reinterpret_cast<uint64_t>(&given), count, 32, line);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  if (thread % 32 < 8 * count) *static_cast<uint4*>(row) = given.row;
}

}  // namespace cugen

// Half of the last kept bit is added to the magnitude, the 13 bits below are cut.
#define CUGEN_TO_TF32
CUGEN_INLINE unsigned to_tf32(unsigned bits) {
  const bool is_finite = (bits & 0x7f800000u) != 0x7f800000u;
  return is_finite ? (bits + 0x1000u) & 0xffffe000u : (bits & 0x7fffffu) != 0 ? 0x7fffffffu : bits;
}
CUGEN_INLINE unsigned to_tf32(float x) { return to_tf32(__float_as_uint(x)); }

#define CUGEN_LDMATRIX(name, count, kind)                                                                  \
  CUGEN_INLINE void name(unsigned* words, const void* row, int line = __builtin_LINE()) {                  \
    cugen::ldmatrix(cugen::Collective::kind, count, words, row, line);                                     \
  }
#define CUGEN_LDMATRIX_X4
CUGEN_LDMATRIX(ldmatrix_x4, 4, load_matrices)
#define CUGEN_LDMATRIX_X4_TRANS
CUGEN_LDMATRIX(ldmatrix_x4_trans, 4, load_transposed_matrices)
#undef CUGEN_LDMATRIX

#define CUGEN_STMATRIX(name, count, kind)                                                                  \
  template <typename Word>                                                                                 \
  CUGEN_INLINE void name(void* row, const Word (&words)[count], int line = __builtin_LINE()) {             \
    unsigned bits[count];                                                                                  \
    memcpy(bits, words, sizeof bits);                                                                      \
    cugen::stmatrix(cugen::Collective::kind, count, row, bits, line);                                      \
  }
#define CUGEN_STMATRIX_X4
CUGEN_STMATRIX(stmatrix_x4, 4, store_matrices)
#define CUGEN_STMATRIX_X2_TRANS
CUGEN_STMATRIX(stmatrix_x2_trans, 2, store_transposed_matrices)
#define CUGEN_STMATRIX_X4_TRANS
CUGEN_STMATRIX(stmatrix_x4_trans, 4, store_transposed_matrices)
#undef CUGEN_STMATRIX

#define CUGEN_MMA_OF(name, k_extent, k_step, sum_bits, a_type, b_type, Sum, Register, a_count, b_count)     \
  inline void name(Sum* upper, Sum* lower, const Register (&a)[a_count], const Register (&b)[b_count],     \
                   int line = __builtin_LINE()) {                                                          \
    constexpr cugen::Element in_a = cugen::Element::a_type, in_b = cugen::Element::b_type;                 \
    cugen::mma({k_extent, k_step, sum_bits, in_a, in_b, upper, lower, a, b}, line);                        \
  }
#define CUGEN_MMA(name, k_extent, a_type, b_type, Sum, Register, a_count, b_count) \
  CUGEN_MMA_OF(name, k_extent, k_extent, 24, a_type, b_type, Sum, Register, a_count, b_count)
// On float8 itself: 13 bits (Zhang et al., SageAttention2, arXiv 2411.10958; those of wgmma are measured).
#define CUGEN_MMA_F8(name, a_type, b_type) CUGEN_MMA_OF(name, 32, 32, 13, a_type, b_type, float, unsigned, 4, 2)
// By two instructions on float16, which has all numbers of float8.
#define CUGEN_MMA_AS_F16(name, a_type, b_type) CUGEN_MMA_OF(name, 32, 16, 24, a_type, b_type, float, unsigned, 4, 2)
#define CUGEN_MMA_M16N8K16
CUGEN_MMA(mma_m16n8k16, 16, f64, f64, double, double, 8, 4)
#define CUGEN_MMA_M16N8K8
CUGEN_MMA(mma_m16n8k8, 8, f64, f64, double, double, 4, 2)
#define CUGEN_MMA_M16N8K4
CUGEN_MMA(mma_m16n8k4, 4, f64, f64, double, double, 2, 1)
#define CUGEN_MMA_M16N8K8_TF32
CUGEN_MMA(mma_m16n8k8_tf32, 8, tf32, tf32, float, unsigned, 4, 2)
#define CUGEN_MMA_M16N8K16_F16
CUGEN_MMA(mma_m16n8k16_f16, 16, f16, f16, float, unsigned, 4, 2)
#define CUGEN_MMA_M16N8K16_BF16
CUGEN_MMA(mma_m16n8k16_bf16, 16, bf16, bf16, float, unsigned, 4, 2)
#define CUGEN_MMA_M16N8K32_S8
CUGEN_MMA(mma_m16n8k32_s8, 32, s8, s8, int, unsigned, 4, 2)
#define CUGEN_MMA_M16N8K32_U8
CUGEN_MMA(mma_m16n8k32_u8, 32, u8, u8, int, unsigned, 4, 2)
#define CUGEN_MMA_M16N8K32_S8_U8
CUGEN_MMA(mma_m16n8k32_s8_u8, 32, s8, u8, int, unsigned, 4, 2)
#define CUGEN_MMA_M16N8K32_U8_S8
CUGEN_MMA(mma_m16n8k32_u8_s8, 32, u8, s8, int, unsigned, 4, 2)
#define CUGEN_MMA_M16N8K32_E4M3
CUGEN_MMA_F8(mma_m16n8k32_e4m3, e4m3, e4m3)
#define CUGEN_MMA_M16N8K32_E4M3_AS_F16
CUGEN_MMA_AS_F16(mma_m16n8k32_e4m3_as_f16, e4m3, e4m3)
#define CUGEN_MMA_M16N8K32_E5M2
CUGEN_MMA_F8(mma_m16n8k32_e5m2, e5m2, e5m2)
#define CUGEN_MMA_M16N8K32_E5M2_AS_F16
CUGEN_MMA_AS_F16(mma_m16n8k32_e5m2_as_f16, e5m2, e5m2)
#define CUGEN_MMA_M16N8K32_E4M3_E5M2
CUGEN_MMA_F8(mma_m16n8k32_e4m3_e5m2, e4m3, e5m2)
#define CUGEN_MMA_M16N8K32_E4M3_E5M2_AS_F16
CUGEN_MMA_AS_F16(mma_m16n8k32_e4m3_e5m2_as_f16, e4m3, e5m2)
#define CUGEN_MMA_M16N8K32_E5M2_E4M3
CUGEN_MMA_F8(mma_m16n8k32_e5m2_e4m3, e5m2, e4m3)
#define CUGEN_MMA_M16N8K32_E5M2_E4M3_AS_F16
CUGEN_MMA_AS_F16(mma_m16n8k32_e5m2_e4m3_as_f16, e5m2, e4m3)
#undef CUGEN_MMA_AS_F16
#undef CUGEN_MMA_F8
#undef CUGEN_MMA
#undef CUGEN_MMA_OF
