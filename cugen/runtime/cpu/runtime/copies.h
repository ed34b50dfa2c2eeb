// The asynchronous copies of one thread that have not arrived.
#pragma once

#include <stddef.h>
#include <string.h>

#include <vector>

namespace cugen {

// Tells the search for races that a copy made at `place` has been written.
#if defined(CUGEN_TRACE)
void note_arrival(void* destination, size_t bytes, const void* place);
#else
inline void note_arrival(void*, size_t, const void*) {}
#endif

class Copies {
 public:
  void add(void* destination, const void* data, size_t bytes, const void* place) {
    waiting_.push_back({destination, bytes, place, {}});
    memcpy(waiting_.back().data, data, bytes);
    ++open_;
  }

  void commit() {
    groups_.push_back(open_);
    open_ = 0;
  }

  // All groups arrive but the last `pending`.
  void await(size_t pending) {
    if (groups_.size() <= pending) return;
    const auto last = groups_.end() - static_cast<ptrdiff_t>(pending);
    size_t count = 0;
    for (auto group = groups_.begin(); group != last; ++group) count += *group;
    groups_.erase(groups_.begin(), last);
    for (size_t i = 0; i < count; ++i) {
      const Copy& copy = waiting_[i];
      note_arrival(copy.destination, copy.bytes, copy.place);
      memcpy(copy.destination, copy.data, copy.bytes);
    }
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(count));
  }

  // The thread has ended. What it never waited for may come at any time until then, which is a race with whoever uses
  // the place since the last barrier; nobody gets to see it.
  void finish() {
    for (const Copy& copy : waiting_) note_arrival(copy.destination, copy.bytes, copy.place);
    waiting_.clear();
    groups_.clear();
    open_ = 0;
  }

 private:
  struct Copy {
    void* destination;
    size_t bytes;
    const void* place;  // in the code
    char data[16];
  };

  std::vector<Copy> waiting_;
  std::vector<size_t> groups_;  // how many copies each holds
  size_t open_ = 0;
};

}  // namespace cugen
