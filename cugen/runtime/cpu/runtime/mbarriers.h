// The mbarriers of one block (PTX ISA, mbarrier).
#pragma once

#include <stdint.h>

#include <algorithm>
#include <vector>

#include "report.h"

namespace cugen {

constexpr uint32_t kMaximumCount = (1 << 20) - 1;  // of arrivals and of bytes

// A barrier, with the arrivals and bytes that its current phase lacks. The bytes are negative while a copy has ended
// before they are expected.
struct Mbarrier {
  uint64_t* word;
  uint32_t arrivals;  // of each phase
  uint32_t pending;
  int32_t bytes;
  uint32_t parity;
  uint32_t cluster_barriers;  // of the block before the initialisation
  int line;  // of the initialisation

  // How near the end of the phase is: the nearest of several that don't end is rather the cause of a hang. Not 0.
  unsigned progress() const { return pending == 0 ? 3 : pending < arrivals || bytes != 0 ? 2 : 1; }

  // What shared memory holds: 20, 20, 21 bits and one.
  uint64_t packed() const {
    return uint64_t{arrivals} | uint64_t{pending} << 20 | (static_cast<uint64_t>(bytes) & 0x1fffff) << 40 |
           uint64_t{parity} << 61;
  }
};

class Mbarriers {
 public:
  void clear() { barriers_.clear(); }

  void init(void* address, uint32_t arrivals, uint32_t cluster_barriers, int line) {
    if (arrivals == 0 || arrivals > kMaximumCount)
      fail("undefined", line, "an mbarrier for %u arrivals: they are 1 to %u", arrivals, kMaximumCount);
    if (const Mbarrier* const barrier = find(address))
      fail("undefined", line, "an mbarrier is initialised again, after line %d", barrier->line);
    barriers_.push_back({static_cast<uint64_t*>(address), arrivals, arrivals, 0, 0, cluster_barriers, line});
    *barriers_.back().word = barriers_.back().packed();
  }

  // Fails where there is none.
  Mbarrier& known(const void* address, int line) {
    Mbarrier* const barrier = find(address);
    if (barrier == nullptr) fail("undefined", line, "an mbarrier is used that no thread has initialised");
    return *barrier;
  }

  // The same, of the running block.
  Mbarrier& at(const void* address, int line) {
    Mbarrier& barrier = known(address, line);
    if (*barrier.word != barrier.packed())
      fail("undefined", line, "the mbarrier that line %d initialised has been overwritten", barrier.line);
    return barrier;
  }

  // Returns whether the phase has ended, as does complete().
  bool arrive(Mbarrier& barrier, uint32_t bytes, int line) {
    if (barrier.pending == 0)
      fail("undefined", line, "an arrival at the mbarrier of line %d, whose phase has had all its %u", barrier.line,
           barrier.arrivals);
    if (bytes > kMaximumCount || barrier.bytes + static_cast<int64_t>(bytes) > kMaximumCount)
      fail("undefined", line, "a phase of an mbarrier expects more than %u bytes", kMaximumCount);
    barrier.bytes += static_cast<int32_t>(bytes);
    --barrier.pending;
    return end_phase(barrier);
  }

  // `bytes` have been copied, by the copy in `line`.
  bool complete(Mbarrier& barrier, uint32_t bytes, int line) {
    if (barrier.bytes - static_cast<int64_t>(bytes) < -static_cast<int64_t>(kMaximumCount))
      fail("undefined", line, "more than %u bytes are copied that a phase of an mbarrier doesn't expect", kMaximumCount);
    barrier.bytes -= static_cast<int32_t>(bytes);
    return end_phase(barrier);
  }

 private:
  Mbarrier* find(const void* address) {
    const auto match = std::find_if(barriers_.begin(), barriers_.end(), [=](const Mbarrier& b) { return b.word == address; });
    return match == barriers_.end() ? nullptr : &*match;
  }

  static bool end_phase(Mbarrier& barrier) {
    const bool has_ended = barrier.pending == 0 && barrier.bytes == 0;
    if (has_ended) {
      barrier.parity ^= 1;
      barrier.pending = barrier.arrivals;
    }
    *barrier.word = barrier.packed();
    return has_ended;
  }

  std::vector<Mbarrier> barriers_;
};

}  // namespace cugen
