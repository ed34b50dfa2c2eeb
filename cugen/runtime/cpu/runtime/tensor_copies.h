// Asynchronous copies of boxes of a tensor map (TMA; PTX ISA, tensors), as late as a kernel may rely on.
#pragma once

#include <stddef.h>
#include <string.h>

#include <algorithm>
#include <array>
#include <vector>

#include "poison.h"
#include "report.h"
#include "shared_memory.h"

namespace cugen {

// A box of a tensor map in global memory and its copy in shared memory, which begins at `start`.
struct Box {
  CUtensorMap map;
  BoxCoordinates first;
  char* start;
  int line;

  unsigned dimensions() const { return map.is_im2col ? 2 : map.rank; }  // of the box
  size_t row_bytes() const { return size_t{map.box[0]} * map.element_bytes; }
  size_t rows() const {
    size_t count = 1;
    for (unsigned d = 1; d < dimensions(); ++d) count *= map.box[d];
    return count;
  }
  size_t bytes() const { return row_bytes() * rows(); }
  MemoryRange range() const { return {start, bytes()}; }
};

// Of a row of a box: its address in global memory, null outside the tensor, and the elements inside.
struct BoxRow {
  unsigned char* address;
  size_t skipped, count;
};

using RowIndex = std::array<int64_t, 5>;  // by dimension; that of the contiguous one is unused

inline BoxRow row_at(const Box& box, const RowIndex& row) {
  const CUtensorMap& map = box.map;
  unsigned char* address = map.address;
  for (unsigned d = 1; d < map.rank; ++d) {
    const int64_t index = row[d];
    if (index < 0 || static_cast<uint64_t>(index) >= map.sizes[d]) return {nullptr, 0, 0};
    address += static_cast<uint64_t>(index) * map.strides[d];
  }
  const int64_t x = box.first.index[0], size = static_cast<int64_t>(map.sizes[0]);
  const int64_t low = std::clamp<int64_t>(x, 0, size), high = std::clamp<int64_t>(x + map.box[0], 0, size);
  if (low == high) return {nullptr, 0, 0};
  return {address + low * map.element_bytes, static_cast<size_t>(low - x), static_cast<size_t>(high - low)};
}

// The pixel after another in im2col mode (PTX ISA, im2col mode): row by row of the bounding box, image by image.
inline void step(const CUtensorMap& map, RowIndex& pixel) {
  const unsigned images = map.rank - 1u;
  for (unsigned d = 1; d < images; ++d) {
    pixel[d] += map.steps[d - 1];
    if (pixel[d] < static_cast<int64_t>(map.sizes[d]) + map.upper[d - 1]) return;
    pixel[d] = map.lower[d - 1];
  }
  ++pixel[images];
}

template <class Action>
void for_each_pixel(const Box& box, const Action& action) {
  RowIndex pixel = {};
  for (unsigned d = 1; d < box.map.rank; ++d) pixel[d] = box.first.index[d];
  char* start = box.start;
  for (uint32_t i = 0; i < box.map.box[1]; ++i, start += box.row_bytes(), step(box.map, pixel)) {
    RowIndex row = pixel;
    for (unsigned d = 1; d < box.map.rank - 1u; ++d) row[d] += box.first.offsets[d - 1];
    action(row_at(box, row), start);
  }
}

// Calls `action(row, start)` for each row of the box; `start` is in shared memory, before a swizzle.
template <class Action>
void for_each_row(const Box& box, const Action& action) {
  if (box.map.is_im2col) return for_each_pixel(box, action);
  RowIndex inside = {};
  char* start = box.start;
  for (size_t number = 0; number < box.rows(); ++number, start += box.row_bytes()) {
    RowIndex row = inside;
    for (unsigned d = 1; d < box.map.rank; ++d) row[d] += box.first.index[d];
    action(row_at(box, row), start);
    for (unsigned d = 1; d < box.map.rank; ++d) {
      if (++inside[d] < int64_t{box.map.box[d]}) break;
      inside[d] = 0;
    }
  }
}

// Calls `action(address, bytes)` for the pieces of shared memory whose elements are inside the tensor.
template <class Action>
void for_each_piece_inside(const Box& box, const Action& action) {
  const size_t size = box.map.element_bytes;
  for_each_row(box, [&](const BoxRow& row, char* start) {
    const size_t end = (row.skipped + row.count) * size;
    for (size_t i = row.skipped * size; i < end;) {
      const size_t next = std::min(end, (i / kChunkBytes + 1) * kChunkBytes);
      action(swizzled(start + i, box.map.swizzle_bytes), next - i);
      i = next;
    }
  });
}

inline void round_to_tf32(unsigned char* row, size_t bytes) {
  for (size_t i = 0; i < bytes; i += sizeof(float)) {
    unsigned bits;
    memcpy(&bits, row + i, sizeof bits);
    bits = to_tf32(bits);
    memcpy(row + i, &bits, sizeof bits);
  }
}

// Elements outside the tensor are zero.
inline void load(const Box& box) {
  const size_t size = box.map.element_bytes;
  std::vector<unsigned char> data(box.row_bytes());
  for_each_row(box, [&](const BoxRow& row, char* target) {
    std::fill(data.begin(), data.end(), 0);
    if (row.address != nullptr) memcpy(data.data() + row.skipped * size, row.address, row.count * size);
    if (box.map.rounds_to_tf32) round_to_tf32(data.data(), data.size());
    for (size_t i = 0; i < data.size(); i += kChunkBytes)
      memcpy(swizzled(target + i, box.map.swizzle_bytes), data.data() + i, kChunkBytes);
  });
}

// Elements outside the tensor are left out.
inline void store(const Box& box) {
  const size_t size = box.map.element_bytes;
  std::vector<unsigned char> data(box.row_bytes());
  for_each_row(box, [&](const BoxRow& row, char* source) {
    if (row.address == nullptr) return;
    for (size_t i = 0; i < data.size(); i += kChunkBytes)
      memcpy(data.data() + i, swizzled(source + i, box.map.swizzle_bytes), kChunkBytes);
    memcpy(row.address, data.data() + row.skipped * size, row.count * size);
  });
}

// Fails unless the first pixel is one that the bounding box has, and the offsets and the box aren't too large.
inline void check_pixels(const char* name, const Box& box) {
  const CUtensorMap& map = box.map;
  const unsigned max_offset = map.rank == 3 ? 65535 : map.rank == 4 ? 255 : 31;
  if (map.box[0] == 0 || map.box[0] > 256 || map.box[1] == 0 || map.box[1] > 1024)
    fail("undefined", box.line, "%s of %u channels of %u pixels: they are 1 to 256 of 1 to 1024", name, map.box[0],
         map.box[1]);
  for (unsigned d = 1; d < map.rank - 1u; ++d) {
    const int64_t low = map.lower[d - 1], end = static_cast<int64_t>(map.sizes[d]) + map.upper[d - 1];
    const int64_t first = box.first.index[d];
    if (first < low || first >= end || (first - low) % map.steps[d - 1] != 0)
      fail("undefined", box.line, "%s from pixel %d of dimension %u, which its bounding box from %d to %d hasn't", name,
           static_cast<int>(first), d, static_cast<int>(low), static_cast<int>(end - 1));
    if (box.first.offsets[d - 1] > max_offset)
      fail("undefined", box.line, "%s at an offset of %u pixels, and of %u dimensions it is at most %u", name,
           unsigned{box.first.offsets[d - 1]}, map.rank, max_offset);
  }
}

// Fails for what the PTX ISA and the driver don't allow, in the copy `name`.
inline void check_box(const char* name, const Box& box) {
  const CUtensorMap& map = box.map;
  const unsigned swizzle = map.swizzle_bytes;
  if (map.rank != box.first.rank)
    fail("undefined", box.line, "%s of a tensor map with %u dimensions by an instruction for %u", name, map.rank,
         box.first.rank);
  if (map.is_im2col != box.first.is_im2col)
    fail("undefined", box.line, "%s in im2col mode needs a tensor map and an instruction of that mode", name);
  if (map.is_im2col) check_pixels(name, box);
  for (unsigned d = 0; d < map.rank && !map.is_im2col; ++d)
    if (map.box[d] == 0 || map.box[d] > 256)
      fail("undefined", box.line, "%s of a box of %u elements in dimension %u: they are 1 to 256", name, map.box[d], d);
  if (box.row_bytes() % kChunkBytes != 0)
    fail("undefined", box.line, "%s of rows of %zu bytes, no multiple of 16", name, box.row_bytes());
  // Shorter rows are allowed, too, but where their chunks go is not documented.
  if (swizzle != 0 && box.row_bytes() != swizzle)
    fail("undefined", box.line, "%s of rows of %zu bytes, not the %u of its swizzle", name, box.row_bytes(), swizzle);
  const size_t alignment = std::max(128u, 8 * swizzle);  // the swizzle repeats after 8 rows
  if (reinterpret_cast<uintptr_t>(box.start) % alignment != 0) fail_misaligned(name, box.start, alignment, box.line);
}

// Loads of one block whose bytes have not arrived.
class TensorLoads {
 public:
  struct Load {
    Box box;
    const void* barrier;
  };

  void clear() { outstanding_.clear(); }
  const std::vector<Load>& outstanding() const { return outstanding_; }

  // All ones until it arrives, NaN in every floating-point format, so that a missing wait is visible in the result.
  // `memory` is where the bytes of the box are now: those of a block that is not running are a copy.
  void add(const Box& box, const void* barrier, void* memory) {
    memset(memory, kPoison, box.bytes());
    outstanding_.push_back({box, barrier});
  }

  // Line of the load to these bytes, or 0.
  int line_of(const MemoryRange& range) const {
    for (const Load& load : outstanding_)
      if (load.box.range().overlaps(range)) return load.box.line;
    return 0;
  }

  Load take(size_t number) {
    const Load load = outstanding_[number];
    outstanding_.erase(outstanding_.begin() + static_cast<ptrdiff_t>(number));
    return load;
  }

 private:
  std::vector<Load> outstanding_;
};

// Stores of one thread that have not read shared memory. They do when the thread waits for their group.
class TensorStores {
 public:
  void add(const Box& box) {
    unread_.push_back(box);
    ++uncommitted_;
  }

  void commit() {
    groups_.push_back(uncommitted_);
    uncommitted_ = 0;
  }

  // Completes all groups but the last `pending`, and calls `action` with each store.
  template <class Action>
  void await(size_t pending, Action action) {
    if (groups_.size() <= pending) return;
    const auto last = groups_.end() - static_cast<ptrdiff_t>(pending);
    size_t count = 0;
    for (auto group = groups_.begin(); group != last; ++group) count += *group;
    groups_.erase(groups_.begin(), last);
    const auto end = unread_.begin() + static_cast<ptrdiff_t>(count);
    for (auto box = unread_.begin(); box != end; ++box) {
      store(*box);
      action(*box);
    }
    unread_.erase(unread_.begin(), end);
  }

  // Line of the store from these bytes, or 0.
  int line_of(const MemoryRange& range) const {
    for (const Box& box : unread_)
      if (box.range().overlaps(range)) return box.line;
    return 0;
  }

  // End of the thread, and with it of the shared memory.
  void finish() {
    if (!unread_.empty())
      fail("undefined", unread_.front().line, "a thread ends before the copy from shared memory in line %d has read it: %s",
           unread_.front().line, uncommitted_ > 0 ? "it is in no group that was committed" : "no wait for its group");
    groups_.clear();
  }

 private:
  std::vector<Box> unread_;
  std::vector<size_t> groups_;  // stores per group
  size_t uncommitted_ = 0;
};

}  // namespace cugen
