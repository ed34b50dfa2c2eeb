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

// Translates the 18 address bits in a matrix descriptor, which count from the array of the pointer that the block has
// converted first, or the multiple of 1024 before it: arrays start at such where they ask for it. As on a GPU, the bits
// of an array's end aren't less than those of its start, so that offsets may be added to them. The rest of an address
// follows from the lowest pointer that was converted. The shared memory of a block is smaller than 2^18 bytes.
class SharedAddresses {
 public:
  void begin(const std::vector<MemoryRange>& arrays) {
    arrays_ = &arrays;
    lowest_ = kNone;
  }

  size_t shorten(const void* pointer) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
    if (lowest_ == kNone) origin_ = start_of(address) & ~uintptr_t{1023};
    lowest_ = std::min(lowest_, address);
    return (address - origin_) & kMask;
  }

  char* extend(size_t bits) const { return reinterpret_cast<char*>(lowest_ + ((bits + origin_ - lowest_) & kMask)); }

 private:
  static constexpr uintptr_t kMask = (1 << 18) - 1, kNone = ~uintptr_t{0};

  uintptr_t start_of(uintptr_t address) const {
    for (const MemoryRange& array : *arrays_) {
      const uintptr_t start = reinterpret_cast<uintptr_t>(array.start);
      if (start <= address && address < start + array.bytes) return start;
    }
    return address;
  }

  const std::vector<MemoryRange>* arrays_ = nullptr;
  uintptr_t lowest_ = kNone, origin_ = 0;
};

}  // namespace cugen
