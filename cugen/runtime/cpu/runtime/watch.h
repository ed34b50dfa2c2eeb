// What a traced build learns between accesses: where a block stands in time. Empty in other builds.
//
// Time is counted in intervals, which a block barrier ends, and within them in steps, which __syncwarp ends for pairs
// of lanes, and a named barrier for pairs of warps. No order follows from two others: those who only meet a third one,
// in turns, count as never having met. Other warp collectives order no memory accesses, so they end nothing.
#pragma once

#include <stdint.h>

namespace cugen {

#if defined(CUGEN_TRACE)

struct Watch {
  uint32_t launch = 0;
  uint32_t block = 0;
  uint32_t interval = 0;  // of this block
  uint32_t epoch = 0;     // counts the intervals of all blocks
  uint32_t step = 0;
  uint32_t synchronised[32][32][32] = {};  // by warp and two lanes: the step that last ordered them
  uint32_t met[32][32] = {};               // by two warps: the step that last ordered all of their lanes

  void begin_block(unsigned number, uint64_t linear, uint32_t first_interval) {
    launch = number;
    block = static_cast<uint32_t>(linear);
    interval = first_interval;
    ++epoch;
  }
  uint32_t end_block() const { return interval; }
  void block_barrier() { ++interval, ++epoch; }
  void warp_barrier(unsigned first_lane, unsigned mask) {
    ++step;
    for (unsigned i = 0; i < 32; ++i)
      for (unsigned j = 0; j < 32; ++j)
        if (mask >> i & mask >> j & 1u) synchronised[first_lane / 32][i][j] = step;
  }
  void named_barrier(unsigned warps) {
    ++step;
    for (unsigned i = 0; i < 32; ++i)
      for (unsigned j = 0; j < 32; ++j)
        if (warps >> i & warps >> j & 1u) met[i][j] = step;
  }
};

#else

struct Watch {
  void begin_block(unsigned, uint64_t, uint32_t) {}
  uint32_t end_block() const { return 0; }
  void block_barrier() {}
  void warp_barrier(unsigned, unsigned) {}
  void named_barrier(unsigned) {}
};

#endif

inline Watch watch;

}  // namespace cugen
