// wgmma.mma_async of one warpgroup: operands in shared memory, sums in the threads' registers (PTX ISA, asynchronous
// warpgroup-level matrix instructions).
#pragma once

#include <stdint.h>
#include <string.h>

#include <vector>

#include "report.h"
#include "shared_memory.h"
#include "tensor.h"

namespace cugen {

constexpr unsigned kWarpgroup = 128;
constexpr unsigned kWgmmaRows = 64, kWgmmaKBytes = 32, kMaximumWgmmaColumns = 256;

inline unsigned element_bytes(Element type) { return 4 / elements_per_register(type); }

// A matrix of `count` rows (A) or columns (B) by 32 bytes of k.
struct SharedMatrix {
  Element type;
  bool is_mn_major;
  unsigned count;
  unsigned swizzle_bytes;
  size_t leading, stride;  // byte offsets
  char* start;

  unsigned depth() const { return kWgmmaKBytes / element_bytes(type); }

  // Address of element k of row or column i.
  char* at(unsigned i, unsigned k) const {
    const unsigned bytes = element_bytes(type), chunk = kChunkBytes / bytes, row = swizzle_bytes / bytes;
    size_t offset;
    if (swizzle_bytes == 0)
      offset = is_mn_major ? i / 8 * stride + k / 8 * leading + k % 8 * 16 + i % 8 * bytes
                           : i / 8 * stride + k / chunk * leading + i % 8 * 16 + k % chunk * bytes;
    else
      offset = is_mn_major ? i / row * leading + k / 8 * stride + k % 8 * swizzle_bytes + i % row * bytes
                           : i / 8 * stride + i % 8 * swizzle_bytes + k * bytes;
    return swizzled(start + offset, swizzle_bytes);
  }

  // Calls `action` with each 16 bytes.
  template <class Action>
  void for_each_chunk(Action action) const {
    const unsigned chunk = kChunkBytes / element_bytes(type);
    for (unsigned i = 0; i < count; i += is_mn_major ? chunk : 1)
      for (unsigned k = 0; k < depth(); k += is_mn_major ? 1 : chunk) action(at(i, k));
  }

  // Elements in the order of k, exact as doubles.
  std::vector<double> read() const {
    std::vector<double> elements;
    elements.reserve(count * depth());
    for (unsigned i = 0; i < count; ++i)
      for (unsigned k = 0; k < depth(); ++k) elements.push_back(element(type, at(i, k), 0));
    return elements;
  }
};

// Of a matrix descriptor. Fails for bits that are reserved, or for a start that the swizzle doesn't allow.
inline SharedMatrix matrix_of(uint64_t descriptor, Element type, bool is_mn_major, unsigned count,
                              const SharedAddresses& addresses, int line) {
  constexpr uint64_t kUsed = 0xc0003fff3fff3fffull;
  constexpr unsigned kSwizzles[] = {0, 128, 64, 32};
  if ((descriptor & ~kUsed) != 0)
    fail("undefined", line, "a matrix descriptor with a base offset, or with bits that are reserved: %016llx",
         static_cast<unsigned long long>(descriptor));
  const auto field = [=](unsigned bit) { return static_cast<size_t>(descriptor >> bit & 0x3fff) << 4; };
  const unsigned swizzle = kSwizzles[descriptor >> 62];
  char* const start = addresses.extend(field(0));
  // The start may be inside of a row, at another k.
  if (swizzle != 0 && (reinterpret_cast<uintptr_t>(start) & ~uintptr_t{swizzle - 1}) % (8 * swizzle) != 0)
    fail("undefined", line, "a matrix descriptor whose rows begin at no multiple of %u bytes, where its swizzle repeats",
         8 * swizzle);
  return {type, is_mn_major, count, swizzle, field(16), field(32), start};
}

// Accumulators of one thread: of each 8 columns two in `upper` and two in `lower`, 4 bytes each.
struct Accumulators {
  char *upper, *lower;
  size_t bytes;                // of each of the two
  std::vector<char> values;    // of both, while multiplications are in flight; else what the last one left
  unsigned in_flight = 0;
};

// D = A * B + D, or A * B, for the accumulators of all threads. Shared memory is read now.
inline void multiply(const Wgmma& wgmma, const SharedMatrix& a, const SharedMatrix& b,
                     Accumulators* const (&threads)[kWarpgroup]) {
  const unsigned k_extent = a.depth();
  const std::vector<double> rows = a.read(), columns = b.read();
  const MmaFragments kind = {k_extent, k_extent, wgmma.sum_bits, wgmma.a_type, wgmma.b_type, nullptr, nullptr, nullptr, nullptr};
  for (unsigned thread = 0; thread < kWarpgroup; ++thread) {
    char* const values = threads[thread]->values.data();
    if (!wgmma.accumulates) memset(values, 0, threads[thread]->values.size());
    for (unsigned half = 0; half < 2; ++half) {
      const double* const row = &rows[k_extent * (thread / 32 * 16 + thread % 32 / 4 + 8 * half)];
      for (unsigned i = 0; i < wgmma.n / 4; ++i) {
        const double* const column = &columns[k_extent * (i / 2 * 8 + thread % 4 * 2 + i % 2)];
        add_products(kind, row, column, values + half * threads[thread]->bytes + i * 4);
      }
    }
  }
}

}  // namespace cugen
