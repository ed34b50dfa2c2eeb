// Matrix instructions of a whole warp: lane 4 * g + t holds the parts that the PTX ISA gives it (matrix fragments).
#pragma once

#include <stdint.h>
#include <string.h>

#include <algorithm>

namespace cugen {

// Elements in a register, adjacent along k.
inline unsigned elements_per_register(Element type) {
  switch (type) {
    case Element::f64:
    case Element::tf32: return 1;
    case Element::f16:
    case Element::bf16: return 2;
    default: return 4;
  }
}

// Element `index` of the registers of a lane. Exact as a double.
inline double element(Element type, const void* registers, unsigned index) {
  const uint8_t* const bytes = static_cast<const uint8_t*>(registers);
  const uint16_t* const halves = static_cast<const uint16_t*>(registers);
  switch (type) {
    case Element::f64: return static_cast<const double*>(registers)[index];
    // The instruction reads 19 bits: it cuts the others (measured).
    case Element::tf32: return bit_cast<float>(static_cast<const uint32_t*>(registers)[index] & 0xffffe000u);
    case Element::f16: return decode(kHalf, halves[index]);
    case Element::bf16: return decode(kBFloat16, halves[index]);
    case Element::e4m3: return decode(kFloat8E4M3, bytes[index]);
    case Element::e5m2: return decode(kFloat8E5M2, bytes[index]);
    case Element::s8: return static_cast<int8_t>(bytes[index]);
    case Element::u8: return bytes[index];
  }
  __builtin_unreachable();
}

inline double power_of_two(int exponent) { return bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52); }

// -1023 for zero, 1024 for infinity and NaN.
inline int exponent_of(double x) { return static_cast<int>(bit_cast<uint64_t>(x) >> 52 & 0x7ff) - 1023; }

// `x` cut toward zero to a multiple of 2^exponent.
inline double cut(double x, int exponent) {
  return static_cast<double>(static_cast<int64_t>(x * power_of_two(-exponent))) * power_of_two(exponent);
}

// Sum as tensor cores add float32: addends are cut to `bits` bits below the leading bit of the largest, and their sum to
// a float of as many, at most, both toward zero. Addends are a float and products of two.
inline float truncated_sum(const double* addends, unsigned count, int bits) {
  int largest = -1023;
  for (unsigned i = 0; i < count; ++i) largest = std::max(largest, exponent_of(addends[i]));
  if (largest == -1023) return 0.0f;
  double sum = 0.0;
  if (largest == 1024) {
    for (unsigned i = 0; i < count; ++i)
      if (exponent_of(addends[i]) == 1024) sum += addends[i];
    return sum == sum ? static_cast<float>(sum) : bit_cast<float>(0x7fffffffu);
  }
  for (unsigned i = 0; i < count; ++i) sum += cut(addends[i], largest - bits);
  // The last bit of a subnormal float is 2^-149.
  return static_cast<float>(cut(sum, std::max(exponent_of(sum) - std::min(bits, 23), -149)));
}

// `sum` plus the products of a row of A and a column of B: double by one FMA each in the order of k, int32 exactly and
// wrapping.
inline void add_products(const MmaFragments& mma, const double* a, const double* b, void* sum) {
  const unsigned k_extent = mma.k_extent;
  if (mma.a_type == Element::f64) {
    double& total = *static_cast<double*>(sum);
    for (unsigned k = 0; k < k_extent; ++k) total = __builtin_fma(a[k], b[k], total);
  } else if (mma.a_type == Element::s8 || mma.a_type == Element::u8) {
    double products = 0.0;
    for (unsigned k = 0; k < k_extent; ++k) products += a[k] * b[k];
    uint32_t& total = *static_cast<uint32_t*>(sum);
    total += static_cast<uint32_t>(static_cast<int32_t>(products));
  } else {
    float& total = *static_cast<float*>(sum);
    double addends[33];
    for (unsigned first = 0; first < k_extent; first += mma.k_step) {
      for (unsigned k = 0; k < mma.k_step; ++k) addends[k] = a[first + k] * b[first + k];
      addends[mma.k_step] = total;
      total = truncated_sum(addends, mma.k_step + 1, mma.sum_bits);
    }
  }
}

// D = A * B + D for A of 16 x k_extent and B of k_extent x 8 elements. A register holds elements adjacent along k; the
// next one of a lane is `stride` further on, after that of A in row g + 8.
inline void mma(const MmaFragments* const (&lanes)[32]) {
  const Element a_type = lanes[0]->a_type, b_type = lanes[0]->b_type;
  const unsigned k_extent = lanes[0]->k_extent;
  const unsigned packed = elements_per_register(a_type), stride = 4 * packed;
  double a[16][32], b[8][32];
  for (unsigned k = 0; k < k_extent; ++k) {
    const unsigned t = k % stride / packed, next = k / stride, inside = k % packed;
    for (unsigned g = 0; g < 8; ++g) {
      const MmaFragments& lane = *lanes[4 * g + t];
      a[g][k] = element(a_type, lane.a, 2 * next * packed + inside);
      a[g + 8][k] = element(a_type, lane.a, (2 * next + 1) * packed + inside);
      b[g][k] = element(b_type, lane.b, next * packed + inside);
    }
  }
  const size_t sum_bytes = a_type == Element::f64 ? sizeof(double) : sizeof(float);
  for (unsigned i = 0; i < 32; ++i)
    for (unsigned n = 0; n < 2; ++n) {
      const unsigned g = i / 4, column = i % 4 * 2 + n;
      add_products(*lanes[0], a[g], b[column], static_cast<char*>(lanes[i]->upper) + n * sum_bytes);
      add_products(*lanes[0], a[g + 8], b[column], static_cast<char*>(lanes[i]->lower) + n * sum_bytes);
    }
}

// Matrices of 8 rows of 16 bytes, row r of matrix m given by lane 8 * m + r. Lane 4 * g + t gets word t of row g or,
// transposed, elements 2 * t and 2 * t + 1 of column g.
inline void load_matrices(const MatrixRow* const (&lanes)[32], unsigned count, bool transposed) {
  for (unsigned m = 0; m < count; ++m) {
    uint32_t words[8][4];
    uint16_t halves[8][8];
    for (unsigned r = 0; r < 8; ++r) {
      memcpy(words[r], &lanes[8 * m + r]->row, 16);
      memcpy(halves[r], &lanes[8 * m + r]->row, 16);
    }
    for (unsigned i = 0; i < 32; ++i) {
      const unsigned g = i / 4, t = i % 4;
      const uint32_t column_pair = halves[2 * t][g] | static_cast<uint32_t>(halves[2 * t + 1][g]) << 16;
      lanes[i]->words[m] = transposed ? column_pair : words[g][t];
    }
  }
}

// The converse: lane 4 * g + t has word t of row g of each matrix or, transposed, elements 2 * t and 2 * t + 1 of column
// g, and lane 8 * m + r gets row r of matrix m.
inline void store_matrices(StoredMatrixRow* const (&lanes)[32], unsigned count, bool transposed) {
  for (unsigned m = 0; m < count; ++m)
    for (unsigned r = 0; r < 8; ++r) {
      uint32_t words[4];
      uint16_t halves[8];
      for (unsigned t = 0; t < 4; ++t) words[t] = lanes[4 * r + t]->words[m];
      for (unsigned g = 0; g < 8; ++g) halves[g] = static_cast<uint16_t>(lanes[4 * g + r / 2]->words[m] >> r % 2 * 16);
      memcpy(&lanes[8 * m + r]->row, transposed ? static_cast<void*>(halves) : words, 16);
    }
}

}  // namespace cugen
