// Threads that poll memory which other blocks write. Where nobody is left who could write it, that is an error.
#pragma once

#include <stdint.h>

#include <atomic>
#include <mutex>

namespace cugen {

// Counts what may end a wait: values that atomics changed, and workers that ran out of blocks.
inline std::atomic<uint64_t> changes{1};

void changed() { ++changes; }

// Which workers have nothing left but lanes that polled in vain since the last change. A worker that was among them can
// only go on after another one's change, and that one counts its change before it polls itself.
class Waiting {
 public:
  void begin(unsigned workers) { workers_ = workers; }

  void leave() {
    const std::lock_guard<std::mutex> lock(mutex_);
    --workers_;
    changed();
  }

  // Adds the worker that has noted in `noted` when it last came here, and says whether that makes all.
  bool all_with(uint64_t& noted, uint64_t now) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (now < since_) return false;
    if (now > since_) {
      since_ = now;
      count_ = 0;
    }
    if (noted != now) {
      noted = now;
      ++count_;
    }
    return count_ == workers_ && changes == now;
  }

 private:
  std::mutex mutex_;
  unsigned workers_ = 0, count_ = 0;
  uint64_t since_ = 0;
};

inline Waiting waiting;

}  // namespace cugen
