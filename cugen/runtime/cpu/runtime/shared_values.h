// Reads of shared memory that holds no value: bytes that no thread has written since the block began. Empty in untraced
// builds.
//
// They are reported where their interval ends: if a thread writes the byte in the same interval, that is a race, whose
// message names both lines.
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(CUGEN_TRACE)

#include <string>
#include <vector>

#include "deferred_fault.h"
#include "sync_clock.h"

namespace cugen {

// Of each byte of a shared array, 1 if it holds a value, by the block's rank in its cluster.
using ValueFlags = std::vector<std::vector<char>>;

class SharedValues {
 public:
  bool are_checked = false;

  // Of byte `offset` of `array` in the shared memory of block rank `rank`.
  void add_read(const std::string& array, size_t offset, unsigned rank, uint64_t counter) {
    if (!are_checked || fault_.is_set()) return;
    const void* const address = reinterpret_cast<const void*>(counter);
    if (rank == sync_clock.rank)
      fault_.set("uninitialised-read", address, "read of byte %zu of %s, which no thread of the block has written", offset,
                 array.c_str());
    else
      fault_.set("uninitialised-read", address, "read of byte %zu of %s of block rank %u, which no thread has written",
                 offset, array.c_str(), rank);
  }

  void end_interval() { fault_.report(); }

 private:
  DeferredFault fault_;
};

}  // namespace cugen

#else

namespace cugen {

struct SharedValues {
  void end_interval() {}
};

}  // namespace cugen

#endif

namespace cugen {

inline SharedValues shared_values;

}  // namespace cugen
