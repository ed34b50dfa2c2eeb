// The operands that a warpgroup has read by wgmma, for the race detector: a TMA load to them must come after. Any thread
// of a warp that has waited for a wgmma may pass that on, since all of its threads wait together. Empty in untraced builds.
#pragma once

#include <algorithm>
#include <vector>

#include "sync_clock.h"
#include "wgmma.h"

namespace cugen {

class OperandReads {
 public:
#if defined(CUGEN_TRACE)
  void clear() { reads_.clear(); }

  // A wgmma in a line, whose warpgroup has waited for it.
  void add(const SharedMatrix& a, const SharedMatrix& b, int line) {
    for (const SharedMatrix* matrix : {&a, &b}) {
      const auto is_same = [=](const Read& read) {
        return read.matrix.start == matrix->start && read.matrix.count == matrix->count;
      };
      reads_.erase(std::remove_if(reads_.begin(), reads_.end(), is_same), reads_.end());
      reads_.push_back({*matrix, line, sync_clock.step});
    }
  }

  // Line of a wgmma that has read these bytes, by warps from `first_warp` on, of which no barrier orders one before what
  // the thread does now; or 0.
  int unordered_line(const MemoryRange& range, unsigned first_warp, unsigned thread) const {
    for (const Read& read : reads_) {
      bool is_inside = false;
      read.matrix.for_each_chunk([&](const char* chunk) { is_inside |= range.contains(chunk); });
      for (unsigned i = 0; is_inside && i < kWarpgroup / 32; ++i)
        if (!is_ordered(first_warp + i, read.step, thread)) return read.line;
    }
    return 0;
  }

 private:
  struct Read {
    SharedMatrix matrix;
    int line;
    uint32_t step;
  };

  static bool is_ordered(unsigned warp, uint32_t step, unsigned thread) {
    if (warp == thread / 32 || sync_clock.barrier_step > step || sync_clock.cluster_step > step ||
        sync_clock.warp_sync[warp][thread / 32] > step)
      return true;
    for (unsigned lane = 0; lane < 32; ++lane)
      if (sync_clock.is_ordered(32 * warp + lane, step, thread)) return true;
    return false;
  }

  std::vector<Read> reads_;
#else
  void clear() {}
  void add(const SharedMatrix&, const SharedMatrix&, int) {}
  int unordered_line(const MemoryRange&, unsigned, unsigned) const { return 0; }
#endif
};

}  // namespace cugen
