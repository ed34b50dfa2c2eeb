// Deadlock detection for spin-waits on memory that other blocks write.
#pragma once

#include <stdint.h>

#include <atomic>
#include <mutex>

namespace cugen {

// Number of events that may end a spin-wait: atomics that changed a value, and workers without blocks left.
inline std::atomic<uint64_t> changes{1};

void count_change() { ++changes; }

// Workers whose threads have all polled without success since the last change. A stalled worker resumes only after a
// change by another worker, which counts the change before it polls.
class SpinWaiters {
 public:
  void begin(unsigned workers) { workers_ = workers; }

  void leave() {
    const std::lock_guard<std::mutex> lock(mutex_);
    --workers_;
    count_change();
  }

  // Adds a stalled worker, which keeps the change of its last call in `counted`. True if all workers are stalled.
  bool all_stalled(uint64_t& counted, uint64_t now) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (now < since_) return false;
    if (now > since_) {
      since_ = now;
      count_ = 0;
    }
    if (counted != now) {
      counted = now;
      ++count_;
    }
    return count_ == workers_ && changes == now;
  }

 private:
  std::mutex mutex_;
  unsigned workers_ = 0, count_ = 0;
  uint64_t since_ = 0;
};

inline SpinWaiters spin_waiters;

}  // namespace cugen
