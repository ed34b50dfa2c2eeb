// Happens-before clock of the race detector. Empty in untraced builds.
//
// A block barrier ends an interval. Within one, __syncwarp ends a step for pairs of lanes, a named barrier for pairs of
// warps. The order isn't transitive: threads that synchronise with a third one only count as unordered. Other warp
// collectives don't order memory accesses.
#pragma once

#include <stdint.h>

namespace cugen {

#if defined(CUGEN_TRACE)

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
  }
  void named_barrier(unsigned warps) {
    ++step;
    for (unsigned i = 0; i < 32; ++i)
      for (unsigned j = 0; j < 32; ++j)
        if (warps >> i & warps >> j & 1u) warp_sync[i][j] = step;
  }
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
};

#endif

inline SyncClock sync_clock;

}  // namespace cugen
