// Writes to global memory that another thread has written without any order: a race, unless they repeat its value, as
// overlapping tiles of blocks do. Empty in untraced builds.
#pragma once

#if defined(CUGEN_TRACE)

#include <vector>

#include "deferred_fault.h"

namespace cugen {

class RepeatedWrites {
 public:
  // Before a byte is written; `fault` is that of another value.
  void add(const char* address, const DeferredFault& fault) {
    if (writes_.empty()) fault_ = fault;
    writes_.push_back({address, *address});
  }

  // After the write and before the next one of any thread. The hooks for what a store reads come after that for what it
  // writes, and before the store.
  void check() {
    for (const Write& write : writes_)
      if (*write.address != write.before) fault_.report();
    writes_.clear();
  }

 private:
  struct Write {
    const char* address;
    char before;
  };

  std::vector<Write> writes_;  // bytes of one write
  DeferredFault fault_;
};

}  // namespace cugen

#else

namespace cugen {

struct RepeatedWrites {
  void check() {}
};

}  // namespace cugen

#endif

namespace cugen {

inline RepeatedWrites repeated_writes;

}  // namespace cugen
