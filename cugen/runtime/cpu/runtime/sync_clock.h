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
#include <utility>
#include <vector>
#endif

namespace cugen {

#if defined(CUGEN_TRACE)

constexpr uint32_t kThreads = 1024;  // per block, at most

// Of each thread of a cluster, by rank and number, the step before which its accesses come before what a thread does
// next. Empty for nothing.
using Order = std::vector<uint32_t>;

inline void add(Order& known, const Order& more) {
  if (known.size() < more.size()) known.resize(more.size());
  for (size_t i = 0; i < more.size(); ++i) known[i] = std::max(known[i], more[i]);
}

// What belongs to one block of a cluster.
struct BlockClock {
  struct Phase {
    Order current, ended;
  };

  uint32_t block = 0;
  uint32_t interval = 0;
  uint32_t epoch = 0;  // of this interval, among the intervals of all blocks
  uint32_t barrier_step = 0;  // that began at the last block barrier
  uint32_t lane_sync[32][32][32] = {};  // by warp and two lanes: step of their last __syncwarp
  uint32_t warp_sync[32][32] = {};               // by two warps: step of their last named barrier
  std::map<const void*, Phase> phases;  // of mbarriers
  Order mbarrier_order[kThreads];       // by the thread that knows
};

// The clock of the running block, and what is common to all.
struct SyncClock : BlockClock {
  uint32_t launch = 0;
  uint32_t rank = 0;  // of the block in its cluster
  uint32_t step = 0;
  uint32_t cluster_step = 0;  // that began at the last cluster barrier

  void begin_block(unsigned number, uint64_t linear) {
    launch = number;
    block = static_cast<uint32_t>(linear);
    interval = 0;
    epoch = ++epochs_;
    barrier_step = ++step;
    phases.clear();
    for (Order& order : mbarrier_order) order.clear();
  }
  // Continues with the clock of another block.
  void begin_rank(uint32_t number) {
    if (number == rank) return;
    std::swap(static_cast<BlockClock&>(*this), suspended_[rank]);
    std::swap(static_cast<BlockClock&>(*this), suspended_[number]);
    rank = number;
  }
  void cluster_barrier() { cluster_step = ++step; }
  void block_barrier() {
    ++interval;
    epoch = ++epochs_;
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

  // What comes before an arrival of the thread.
  Order release(unsigned thread) {
    ++step;
    Order known = mbarrier_order[thread];
    known.resize(std::max<size_t>(known.size(), (rank + 1) * kThreads));
    uint32_t* const own = known.data() + rank * kThreads;
    own[thread] = step;
    for (unsigned past = 0; past < kThreads; ++past) {
      const unsigned warp = past / 32;
      own[past] = std::max(own[past], warp_sync[warp][thread / 32]);
      if (warp == thread / 32) own[past] = std::max(own[past], lane_sync[warp][past % 32][thread % 32]);
    }
    return known;
  }

  // An arrival at an mbarrier, the end of a phase, and a thread that has waited for that.
  void arrive(const void* barrier, const Order& order) { add(phases[barrier].current, order); }
  void end_phase(const void* barrier) {
    Phase& phase = phases[barrier];
    phase.ended.swap(phase.current);
    phase.current.clear();
  }
  void await(const void* barrier, unsigned thread) { add(mbarrier_order[thread], phases[barrier].ended); }

  // Whether mbarriers order what a thread of the block did in a step before what another does now.
  bool is_ordered(unsigned past, uint32_t past_step, unsigned thread) const {
    const Order& known = mbarrier_order[thread];
    const size_t position = rank * kThreads + past;
    return position < known.size() && known[position] > past_step;
  }

 private:
  // Unites what the selected threads know by mbarriers.
  template <class Predicate>
  void share(Predicate is_member) {
    Order all;
    for (unsigned i = 0; i < kThreads; ++i)
      if (is_member(i)) add(all, mbarrier_order[i]);
    if (all.empty()) return;
    for (unsigned i = 0; i < kThreads; ++i)
      if (is_member(i)) mbarrier_order[i] = all;
  }

  uint32_t epochs_ = 0;
  std::map<uint32_t, BlockClock> suspended_;  // by rank
};

#else

struct Order {};

struct SyncClock {
  void begin_block(unsigned, uint64_t) {}
  void begin_rank(uint32_t) {}
  void cluster_barrier() {}
  void block_barrier() {}
  void warp_barrier(unsigned, unsigned) {}
  void named_barrier(unsigned) {}
  Order release(unsigned) { return {}; }
  void arrive(const void*, const Order&) {}
  void end_phase(const void*) {}
  void await(const void*, unsigned) {}
};

#endif

inline SyncClock sync_clock;

}  // namespace cugen
