// Happens-before of the accesses to global memory: fences and atomics order them between the blocks of a launch, barriers
// within a block or a cluster. Empty in untraced builds.
//
// A thread that has passed __threadfence() releases with its next atomics what it knew at the fence: its own writes,
// those of its block before the last barrier, and what it had acquired. A thread acquires at a fence what was released
// to the locations that it has read by atomics or volatile loads. Barriers share what threads of a block have acquired.
// The blocks of a cluster count as one, whose members differ by rank.
#pragma once

#include <stdint.h>

#if defined(CUGEN_TRACE)

#include <string.h>

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <vector>

#include "sync_clock.h"

namespace cugen {

// The last write of one byte of global memory. Block 0 is none.
struct GlobalWrite {
  uint32_t block = 0;
  uint32_t step = 0;
  int32_t counter = 0;  // address of the code, relative to kCodeOrigin
  uint16_t thread = 0;
  bool is_atomic = false;
  uint8_t rank = 0;  // of the block in its cluster
};

class MemoryOrder {
 public:
  // With the number of blocks; those of earlier launches have ended.
  void begin_launch(uint64_t blocks) {
    first_block_ = next_block_;
    next_block_ += static_cast<uint32_t>(blocks);
    releases_.clear();
    locations_.clear();
    block_ = 0;
  }

  // `number` is that of the block's cluster.
  void begin_block(uint64_t number) {
    const uint32_t block = first_block_ + static_cast<uint32_t>(number);
    if (block == block_) return;
    block_ = block;
    common_.clear();
    changed_.clear();
    for (const unsigned number : used_) threads_[number] = {};
    used_.clear();
  }

  void fence(unsigned number) {
    Thread& thread = use(number);
    if (!thread.pending.empty()) {
      add(thread.known, thread.pending);
      thread.pending.clear();
      changed_.push_back(number);
    }
    ++sync_clock.step;
    thread.has_fence = true;
    thread.release = kNone;
    Release& release = thread.fence;
    release = {block_, number, sync_clock.step, sync_clock.barrier_step, {}, {}};
    memcpy(release.lane_steps, sync_clock.lane_sync[number / 32][number % 32], sizeof release.lane_steps);
    memcpy(release.warp_steps, sync_clock.warp_sync[number / 32], sizeof release.warp_steps);
  }

  // An atomic or volatile load.
  void read_location(unsigned number, const void* address) {
    const auto location = locations_.find(address);
    if (location != locations_.end()) add(use(number).pending, location->second);
  }

  // An atomic, which also reads, or a volatile store, which ends what the location released before.
  void write_location(unsigned number, const void* address, bool also_reads) {
    if (also_reads) read_location(number, address);
    Thread& thread = threads_[number];
    Known& location = locations_[address];
    if (!also_reads) location.clear();
    if (!thread.has_fence) return;
    if (thread.release == kNone) {
      thread.release = releases_.size();
      releases_.push_back(thread.fence);
      Known& known = thread.released;
      known = {key(block_, thread.release)};
      add(known, common_);
      add(known, thread.known);
    }
    add(location, thread.released);
  }

  GlobalWrite write_by(unsigned number, int32_t counter, bool is_atomic) const {
    const Thread& thread = threads_[number];
    // Who knows what a fence released knows the atomic behind it.
    const uint32_t step = is_atomic && thread.has_fence ? thread.fence.step - 1 : sync_clock.step;
    return {block_, step, counter, static_cast<uint16_t>(number), is_atomic, static_cast<uint8_t>(sync_clock.rank)};
  }

  // Whether the running block wrote it.
  bool is_own(const GlobalWrite& write) const { return write.block == block_ && write.rank == sync_clock.rank; }

  // Whether barriers, or fences and atomics, order a write before what the thread does now.
  bool is_ordered(unsigned number, const GlobalWrite& write) const {
    if (write.block < first_block_) return true;
    if (is_own(write)) {
      const unsigned warp = number / 32, past_warp = write.thread / 32;
      if (write.thread == number || write.step < sync_clock.barrier_step ||
          write.step < sync_clock.warp_sync[past_warp][warp] ||
          (warp == past_warp && write.step < sync_clock.lane_sync[warp][number % 32][write.thread % 32]))
        return true;
    } else if (write.block == block_ && write.step < sync_clock.cluster_step) {
      return true;
    }
    return knows(common_, write) || knows(threads_[number].known, write);
  }

  uint32_t block_of(const GlobalWrite& write) const { return write.block - first_block_; }

  void block_barrier() {
    for (const unsigned number : changed_) {
      add(common_, threads_[number].known);
      threads_[number].known.clear();
    }
    changed_.clear();
  }

  void warp_barrier(unsigned first_lane, unsigned mask) {
    share([=](unsigned number) { return (number & ~31u) == first_lane && mask >> number % 32 & 1u; });
  }

  void named_barrier(unsigned warps) {
    share([=](unsigned number) { return (warps >> number / 32 & 1u) != 0; });
  }

 private:
  static constexpr size_t kNone = ~size_t{0};

  struct Release {
    uint32_t block, thread, step, barrier_step;
    uint32_t lane_steps[32], warp_steps[32];
  };

  using Known = std::vector<uint64_t>;  // keys of releases, ascending

  struct Thread {
    Known known;     // acquired since the last block barrier
    Known pending;   // read, but with no fence since
    Known released;  // by its last fence
    bool is_used = false, has_fence = false;
    size_t release = kNone;  // of its last fence, once an atomic followed
    Release fence{};
  };

  Thread& use(unsigned number) {
    Thread& thread = threads_[number];
    if (!thread.is_used) used_.push_back(number);
    thread.is_used = true;
    return thread;
  }

  static uint64_t key(uint32_t block, size_t release) { return uint64_t{block} << 32 | static_cast<uint32_t>(release); }

  static void add(Known& known, const Known& more) {
    if (more.empty() || std::includes(known.begin(), known.end(), more.begin(), more.end())) return;
    Known all;
    all.reserve(known.size() + more.size());
    std::set_union(known.begin(), known.end(), more.begin(), more.end(), std::back_inserter(all));
    known.swap(all);
  }

  bool knows(const Known& known, const GlobalWrite& write) const {
    for (auto it = std::lower_bound(known.begin(), known.end(), key(write.block, 0));
         it != known.end() && *it >> 32 == write.block; ++it) {
      const Release& release = releases_[static_cast<uint32_t>(*it)];
      if (write.step < release.barrier_step || (write.thread == release.thread && write.step < release.step) ||
          (write.thread / 32 == release.thread / 32 && write.step < release.lane_steps[write.thread % 32]) ||
          write.step < release.warp_steps[write.thread / 32])
        return true;
    }
    return false;
  }

  // Unites what the selected threads have acquired.
  template <class Predicate>
  void share(Predicate is_member) {
    Known all;
    for (const unsigned number : changed_)
      if (is_member(number)) add(all, threads_[number].known);
    if (all.empty()) return;
    for (unsigned number = 0; number < 1024; ++number)
      if (is_member(number) && threads_[number].known != all) {
        add(use(number).known, all);
        changed_.push_back(number);
      }
  }

  uint32_t first_block_ = 1, next_block_ = 1, block_ = 0;
  std::vector<Release> releases_;
  std::unordered_map<const void*, Known> locations_;
  Known common_;  // to all threads of the block
  std::vector<unsigned> used_;     // threads whose state is not the initial one
  std::vector<unsigned> changed_;  // threads that acquired since the last block barrier
  Thread threads_[1024];
};

}  // namespace cugen

#else

namespace cugen {

struct MemoryOrder {
  void begin_launch(uint64_t) {}
  void begin_block(uint64_t) {}
  void block_barrier() {}
  void warp_barrier(unsigned, unsigned) {}
  void named_barrier(unsigned) {}
};

}  // namespace cugen

#endif

namespace cugen {

inline MemoryOrder memory_order;

}  // namespace cugen
