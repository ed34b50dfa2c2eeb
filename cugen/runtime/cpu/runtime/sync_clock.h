// Happens-before clock of the race detector. Empty in untraced builds.
//
// A block barrier ends an interval. Within one, __syncwarp ends a step for pairs of lanes, a named barrier for pairs of
// warps, and an mbarrier for pairs of a thread that arrives and one that waits. Of these, only the order by mbarriers is
// transitive: threads that synchronise with a third one by others count as unordered. Other warp collectives don't order
// memory accesses.
#pragma once

#include <stdint.h>

#if defined(CUGEN_TRACE)
#include <algorithm>
#include <map>
#include <vector>
#endif

namespace cugen {

#if defined(CUGEN_TRACE)

// Of each thread of a block, the step before which its accesses come before what a thread does next.
using Order = std::vector<uint32_t>;

struct SyncClock {
  uint32_t launch = 0;
  uint32_t block = 0;
  uint32_t rank = 0;      // of the block in its cluster
  uint32_t interval = 0;  // of this block
  uint32_t epoch = 0;     // intervals of all blocks
  uint32_t step = 0;
  uint32_t barrier_step = 0;  // that began at the last block barrier
  uint32_t cluster_step = 0;  // that began at the last cluster barrier
  uint32_t lane_sync[32][32][32] = {};  // by warp and two lanes: step of their last __syncwarp
  uint32_t warp_sync[32][32] = {};               // by two warps: step of their last named barrier

  void begin_block(unsigned number, uint64_t linear, uint32_t first_interval) {
    launch = number;
    block = static_cast<uint32_t>(linear);
    interval = first_interval;
    ++epoch;
    barrier_step = ++step;
    phases_.clear();
  }
  uint32_t end_block() const { return interval; }
  void begin_rank(uint32_t number) { rank = number; }
  void cluster_barrier() { cluster_step = ++step; }
  void block_barrier() {
    ++interval, ++epoch;
    barrier_step = ++step;
  }
  void warp_barrier(unsigned first_lane, unsigned mask) {
    ++step;
    for (unsigned i = 0; i < 32; ++i)
      for (unsigned j = 0; j < 32; ++j)
        if (mask >> i & mask >> j & 1u) lane_sync[first_lane / 32][i][j] = step;
    share([=](unsigned thread) { return thread / 32 == first_lane / 32 && (mask >> thread % 32 & 1u); });
  }
  void named_barrier(unsigned warps) {
    ++step;
    for (unsigned i = 0; i < 32; ++i)
      for (unsigned j = 0; j < 32; ++j)
        if (warps >> i & warps >> j & 1u) warp_sync[i][j] = step;
    share([=](unsigned thread) { return (warps >> thread / 32 & 1u) != 0; });
  }

  // A thread arrives at an mbarrier, a phase of it ends, and a thread has waited for that.
  void arrive(const void* barrier, unsigned thread) {
    ++step;
    Phase& phase = phases_[barrier];
    Order& known = phase.current;
    known.resize(kThreads);
    known[thread] = step;
    for (unsigned past = 0; past < kThreads; ++past) {
      const unsigned warp = past / 32;
      uint32_t before = warp_sync[warp][thread / 32];
      if (warp == thread / 32) before = std::max(before, lane_sync[warp][past % 32][thread % 32]);
      if (!mbarrier_order_[thread].empty()) before = std::max(before, mbarrier_order_[thread][past]);
      known[past] = std::max(known[past], before);
    }
  }
  void end_phase(const void* barrier) {
    Phase& phase = phases_[barrier];
    phase.ended.swap(phase.current);
    phase.current.clear();
  }
  void await(const void* barrier, unsigned thread) { add(mbarrier_order_[thread], phases_[barrier].ended); }

  // Whether mbarriers order what a thread did in a step before what another does now.
  bool is_ordered(unsigned past, uint32_t past_step, unsigned thread) const {
    return !mbarrier_order_[thread].empty() && mbarrier_order_[thread][past] > past_step;
  }

 private:
  static constexpr unsigned kThreads = 1024;

  struct Phase {
    Order current, ended;
  };

  static void add(Order& known, const Order& more) {
    if (more.empty()) return;
    known.resize(kThreads);
    for (unsigned i = 0; i < kThreads; ++i) known[i] = std::max(known[i], more[i]);
  }

  // Unites what the selected threads know by mbarriers.
  template <class Predicate>
  void share(Predicate is_member) {
    Order all;
    for (unsigned i = 0; i < kThreads; ++i)
      if (is_member(i)) add(all, mbarrier_order_[i]);
    if (all.empty()) return;
    for (unsigned i = 0; i < kThreads; ++i)
      if (is_member(i)) mbarrier_order_[i] = all;
  }

  std::map<const void*, Phase> phases_;  // of the block's mbarriers
  Order mbarrier_order_[kThreads];       // by the thread that knows; empty for nothing
};

#else

struct SyncClock {
  void begin_block(unsigned, uint64_t, uint32_t) {}
  uint32_t end_block() const { return 0; }
  void begin_rank(uint32_t) {}
  void cluster_barrier() {}
  void block_barrier() {}
  void warp_barrier(unsigned, unsigned) {}
  void named_barrier(unsigned) {}
  void arrive(const void*, unsigned) {}
  void end_phase(const void*) {}
  void await(const void*, unsigned) {}
};

#endif

inline SyncClock sync_clock;

}  // namespace cugen
