// Asynchronous copies (cp.async) of one thread that have not completed.
#pragma once

#include <stddef.h>
#include <string.h>

#include <vector>

namespace cugen {

// Report the issue and the completion of a copy issued at `code_address` to the race detector.
#if defined(CUGEN_TRACE)
void record_issue(void* destination, size_t bytes, const void* code_address);
void record_completion(void* destination, size_t bytes, const void* code_address);
#else
inline void record_issue(void*, size_t, const void*) {}
inline void record_completion(void*, size_t, const void*) {}
#endif

class AsyncCopies {
 public:
  void add(void* destination, const void* data, size_t bytes, const void* code_address) {
    incomplete_.push_back({destination, bytes, code_address, {}});
    memcpy(incomplete_.back().data, data, bytes);
    ++uncommitted_;
    record_issue(destination, bytes, code_address);
  }

  void commit() {
    groups_.push_back(uncommitted_);
    uncommitted_ = 0;
  }

  // Completes all groups but the last `pending`.
  void await(size_t pending) {
    if (groups_.size() <= pending) return;
    const auto last = groups_.end() - static_cast<ptrdiff_t>(pending);
    size_t count = 0;
    for (auto group = groups_.begin(); group != last; ++group) count += *group;
    groups_.erase(groups_.begin(), last);
    for (size_t i = 0; i < count; ++i) {
      const Copy& copy = incomplete_[i];
      record_completion(copy.destination, copy.bytes, copy.code_address);
      memcpy(copy.destination, copy.data, copy.bytes);
    }
    incomplete_.erase(incomplete_.begin(), incomplete_.begin() + static_cast<ptrdiff_t>(count));
  }

  // End of the thread. Copies it did not wait for may complete at any time, which is a race with accesses since the last
  // barrier. Their data is dropped.
  void finish() {
    for (const Copy& copy : incomplete_) record_completion(copy.destination, copy.bytes, copy.code_address);
    incomplete_.clear();
    groups_.clear();
    uncommitted_ = 0;
  }

 private:
  struct Copy {
    void* destination;
    size_t bytes;
    const void* code_address;
    char data[16];
  };

  std::vector<Copy> incomplete_;
  std::vector<size_t> groups_;  // copies per group
  size_t uncommitted_ = 0;
};

}  // namespace cugen
