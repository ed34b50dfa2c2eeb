// Ranges of shared memory.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <algorithm>
#include <vector>

namespace cugen {

constexpr size_t kChunkBytes = 16;  // that TMA and wgmma swizzle

struct MemoryRange {
  char* start;
  size_t bytes;

  bool contains(const void* address) const { return address >= start && address < start + bytes; }
  bool overlaps(const MemoryRange& other) const {
    return start < other.start + other.bytes && other.start < start + bytes;
  }
};

// Where TMA and wgmma access what is at `address` without a swizzle. Rows of `swizzle_bytes` have their chunks exchanged
// by bits 7 to 9 of the final address (PTX ISA, swizzling modes); 0: no swizzle.
inline char* swizzled(char* address, unsigned swizzle_bytes) {
  if (swizzle_bytes == 0) return address;
  const uintptr_t bits = reinterpret_cast<uintptr_t>(address);
  return reinterpret_cast<char*>(bits ^ (bits >> 7 & (swizzle_bytes / 16 - 1)) << 4);
}

// Translates the 18 address bits in a matrix descriptor. Arrays start at multiples of 1024 where they ask for it, so
// these bits of a pointer are as good as those of a GPU's address; the rest follow from the lowest pointer that the block
// has converted. The shared memory of a block is smaller than 2^18 bytes.
class SharedAddresses {
 public:
  void clear() { lowest_ = ~uintptr_t{0}; }

  size_t shorten(const void* pointer) {
    lowest_ = std::min(lowest_, reinterpret_cast<uintptr_t>(pointer));
    return reinterpret_cast<uintptr_t>(pointer) & kMask;
  }

  char* extend(size_t bits) const { return reinterpret_cast<char*>(lowest_ + ((bits - lowest_) & kMask)); }

 private:
  static constexpr uintptr_t kMask = (1 << 18) - 1;

  uintptr_t lowest_ = ~uintptr_t{0};
};

}  // namespace cugen
