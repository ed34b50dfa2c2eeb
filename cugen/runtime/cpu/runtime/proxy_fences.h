// Whether writes of threads to shared memory are visible to the async proxy: whether fence.proxy.async came after them,
// in the thread that wrote or in the one that starts the asynchronous read. For traced builds.
#pragma once

#include <stdint.h>

namespace cugen {

// The last write of one byte by a thread.
struct ProxyWrite {
  uint32_t time = 0;
  uint16_t thread = 0;
};

class ProxyFences {
 public:
  void begin_block() { first_ = ++clock_; }
  void fence(unsigned thread) { last_[thread] = ++clock_; }
  ProxyWrite write_by(unsigned thread) const { return {clock_, static_cast<uint16_t>(thread)}; }

  bool is_visible(const ProxyWrite& write, unsigned reader) const {
    return write.time < first_ || last_[write.thread] > write.time || last_[reader] > write.time;
  }

 private:
  uint32_t clock_ = 0, first_ = 0;
  uint32_t last_[1024] = {};
};

inline ProxyFences proxy_fences;

}  // namespace cugen
