// Matrix instructions of a warpgroup, in place of the inline PTX of a .cu (runtime/warpgroup.h).
#pragma once

#include "wgmma_guards.h"

namespace cugen {

// One thread's part of wgmma.mma_async.m64nNkK (PTX ISA), K of 32 bytes. The accumulators are int32_t for 8-bit
// integers, else float; `sum_bits` as in MmaFragments. Matrices in shared memory are given by their descriptors.
struct Wgmma {
  unsigned n;
  int sum_bits;
  Element a_type, b_type;
  bool a_is_mn_major, b_is_mn_major;
  uint64_t a, b;
  bool accumulates;
  void *upper, *lower;
};

void issue_wgmma(const Wgmma& wgmma, int line);
void fence_wgmma(int line);
void commit_wgmma(int line);
void await_wgmma(unsigned pending, int line);
void set_registers(unsigned count, int line);

// Address as a 32-bit one of shared memory, by its low bits.
size_t shared_address(const void* pointer);

}  // namespace cugen

inline size_t __cvta_generic_to_shared(const void* pointer) { return cugen::shared_address(pointer); }

#define CUGEN_WGMMA_FENCE
inline void wgmma_fence(int line = __builtin_LINE()) { cugen::fence_wgmma(line); }
#define CUGEN_WGMMA_COMMIT
inline void wgmma_commit(int line = __builtin_LINE()) { cugen::commit_wgmma(line); }
#define CUGEN_WGMMA_WAIT
template <int pending>
inline void wgmma_wait(int line = __builtin_LINE()) {
  cugen::await_wgmma(pending, line);
}

// Registers are those of the host. All threads of a warpgroup must set their number.
#define CUGEN_SETMAXNREG_DEC
template <int count>
inline void setmaxnreg_dec(int line = __builtin_LINE()) {
  static_assert(count % 8 == 0 && 24 <= count && count <= 256, "setmaxnreg sets multiples of 8 from 24 to 256");
  cugen::set_registers(count, line);
}
#define CUGEN_SETMAXNREG_INC
template <int count>
inline void setmaxnreg_inc(int line = __builtin_LINE()) {
  static_assert(count % 8 == 0 && 24 <= count && count <= 256, "setmaxnreg sets multiples of 8 from 24 to 256");
  cugen::set_registers(count, line);
}

#define CUGEN_WGMMA_OF(extents, types, n, sum_bits, a_type, b_type, Sum, a_is_mn_major, b_is_mn_major)              \
  CUGEN_INLINE void wgmma_##extents##_##types(Sum* upper, Sum* lower, unsigned long long a, unsigned long long b,         \
                                        bool accumulates, int line = __builtin_LINE()) {                            \
    constexpr cugen::Element in_a = cugen::Element::a_type, in_b = cugen::Element::b_type;                          \
    cugen::issue_wgmma({n, sum_bits, in_a, in_b, a_is_mn_major, b_is_mn_major, a, b, accumulates, upper, lower}, line); \
  }
#define CUGEN_WGMMA_16(n, type)               \
  template <bool a_is_mn_major, bool b_is_mn_major> \
  CUGEN_WGMMA_OF(m64n##n##k16, type, n, 24, type, type, float, a_is_mn_major, b_is_mn_major)
// Sums of float8 keep 13 bits below the leading one of the largest addend (measured on an H200).
#define CUGEN_WGMMA_F8(n, types, a_type, b_type) \
  CUGEN_WGMMA_OF(m64n##n##k32, types, n, 13, a_type, b_type, float, false, false)
#define CUGEN_WGMMA_8(n, types, a_type, b_type) CUGEN_WGMMA_OF(m64n##n##k32, types, n, 0, a_type, b_type, int, false, false)
#define CUGEN_WGMMA(n)                                                  \
  CUGEN_WGMMA_16(n, f16)                                                \
  CUGEN_WGMMA_16(n, bf16)                                               \
  CUGEN_WGMMA_OF(m64n##n##k8, tf32, n, 24, tf32, tf32, float, false, false) \
  CUGEN_WGMMA_F8(n, e4m3, e4m3, e4m3)                                   \
  CUGEN_WGMMA_F8(n, e4m3_e5m2, e4m3, e5m2)                              \
  CUGEN_WGMMA_F8(n, e5m2_e4m3, e5m2, e4m3)                              \
  CUGEN_WGMMA_F8(n, e5m2, e5m2, e5m2)                                   \
  CUGEN_WGMMA_8(n, s8, s8, s8)                                          \
  CUGEN_WGMMA_8(n, s8_u8, s8, u8)                                       \
  CUGEN_WGMMA_8(n, u8_s8, u8, s8)                                       \
  CUGEN_WGMMA_8(n, u8, u8, u8)
#define CUGEN_WGMMAS(n0, n1, n2, n3) CUGEN_WGMMA(n0) CUGEN_WGMMA(n1) CUGEN_WGMMA(n2) CUGEN_WGMMA(n3)
CUGEN_WGMMAS(8, 16, 24, 32)
CUGEN_WGMMAS(40, 48, 56, 64)
CUGEN_WGMMAS(72, 80, 88, 96)
CUGEN_WGMMAS(104, 112, 120, 128)
CUGEN_WGMMAS(136, 144, 152, 160)
CUGEN_WGMMAS(168, 176, 184, 192)
CUGEN_WGMMAS(200, 208, 216, 224)
CUGEN_WGMMAS(232, 240, 248, 256)
#undef CUGEN_WGMMAS
#undef CUGEN_WGMMA
#undef CUGEN_WGMMA_8
#undef CUGEN_WGMMA_F8
#undef CUGEN_WGMMA_16
#undef CUGEN_WGMMA_OF
