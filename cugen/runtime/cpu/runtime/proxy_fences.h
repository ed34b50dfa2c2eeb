// Whether writes of threads to shared memory are visible to the async proxy: whether fence.proxy.async came after them,
// in the thread that wrote or in the one that starts the asynchronous read. For traced builds.
#pragma once

#include <stdint.h>

#include <array>
#include <vector>

#include "sync_clock.h"

namespace cugen {

// The last write of one byte by a thread.
struct ProxyWrite {
  uint32_t time = 0;
  uint16_t thread = 0;
};

class ProxyFences {
 public:
  // Of `size` blocks.
  void begin_cluster(unsigned size) { last_.assign(size, {}), first_ = ++clock_; }
  void fence(unsigned thread) { last_[sync_clock.rank][thread] = ++clock_; }
  ProxyWrite write_by(unsigned thread) const { return {clock_, static_cast<uint16_t>(thread)}; }

  bool is_visible(const ProxyWrite& write, unsigned reader) const {
    const Fences& last = last_[sync_clock.rank];
    return write.time < first_ || last[write.thread] > write.time || last[reader] > write.time;
  }

 private:
  using Fences = std::array<uint32_t, kThreads>;  // the last one of each thread

  uint32_t clock_ = 0, first_ = 0;
  std::vector<Fences> last_;  // by rank
};

inline ProxyFences proxy_fences;

}  // namespace cugen
