// Barriers of a block, with and without votes, named ones, and what is said of threads that can't meet.
#pragma once

#include <string.h>

#include <algorithm>

#include "block.h"

namespace cugen {

inline int Block::barrier(Vote vote, int predicate, int line) {
  if (waiting_ == 0) {
    barrier_ = {vote, line, lane_, 0};
  } else if (line != barrier_.line || vote != barrier_.vote) {
    fail_diverged(barrier_.first, barrier_.line, line);
  }
  barrier_.votes += predicate != 0;
  if (++waiting_ == count_) {
    waiting_ = 0;
    result_ = vote == Vote::count ? static_cast<int>(barrier_.votes)
              : vote == Vote::all ? barrier_.votes == count_
                                  : barrier_.votes != 0;
    memset(state_, static_cast<int>(State::ready), count_);
    shared_values.end_interval();
    sync_clock.block_barrier();
    memory_order.block_barrier();
    if (vote == Vote::cluster) {
      ++cluster_barriers_;
      yield_to_cluster(Pause::at_cluster_barrier);
    }
    return result_;
  }
  wait(State::at_barrier, line);
  return result_;
}

inline void Block::named_barrier(unsigned id, unsigned count, int line) {
  const unsigned all = (count_ + 31) / 32 * 32;
  if (id == 0 || id >= kBarriers)
    fail("divergence", line, "bar.sync %u: the named barriers of a block are 1 to %u", id, kBarriers - 1);
  if (count == 0 || count % 32 != 0 || count > all)
    fail("divergence", line, "bar.sync of %u threads: not a positive multiple of 32 in a block of %u", count, count_);
  NamedBarrier& barrier = named_barriers_[id];
  if (barrier.arrived == 0) {
    barrier = {count, 0, lane_, line, {}};
  } else if (line != barrier.line) {
    fail_diverged(barrier.first, barrier.line, line);
  } else if (count != barrier.count) {
    fail("divergence", line, "bar.sync %u with a count of %u, while a thread waits at it with %u", id, count, barrier.count);
  }
  barrier.lanes[lane_ / 32] |= 1u << (lane_ & 31u);
  // Counts are of whole warps: the block's last thread also arrives for the missing lanes of its warp.
  barrier.arrived += lane_ + 1 == count_ ? all - lane_ : 1;
  if (barrier.arrived < count) {
    wait(State::at_barrier, line);
  } else {
    finish(barrier);
  }
}

inline void Block::finish(NamedBarrier& barrier) {
  unsigned warps = 0;
  for (unsigned first = 0; first < count_; first += 32) {
    const unsigned lanes = barrier.lanes[first / 32];
    if (lanes == 0) continue;
    if (const unsigned absent = lanes_from(first) & ~lanes)
      fail("divergence", barrier.line,
           "%u threads arrived at the named barrier in line %d without thread %u of an arriving warp", barrier.count,
           barrier.line, first + static_cast<unsigned>(__builtin_ctz(absent)));
    memset(state_ + first, static_cast<int>(State::ready), std::min(count_ - first, 32u));
    warps |= 1u << (first / 32);
  }
  barrier.arrived = 0;
  sync_clock.named_barrier(warps);
  memory_order.named_barrier(warps);
}

// Deadlock: reports a waiting thread, and one that waits elsewhere or has returned.
inline void Block::report_deadlock() {
  if (first_at_mbarrier() < count_) report_mbarriers("");
  unsigned waiting = kNone, elsewhere = kNone;
  for (unsigned i = 0; i < count_; ++i)
    if (state_[i] == State::at_barrier || state_[i] == State::at_collective) {
      if (waiting == kNone) waiting = i;
      else if (elsewhere == kNone && lanes_[i].line != lanes_[waiting].line) elsewhere = i;
    }
  const Lane& lane = lanes_[waiting];
  const char* const where = state_[waiting] == State::at_barrier ? "the barrier" : "the warp collective";
  make_current(waiting);
  if (elsewhere != kNone)
    fail("divergence", lane.line, "a thread waits at %s in line %d, while thread (%u,%u,%u) waits in line %d", where,
         lane.line, lanes_[elsewhere].index.x, lanes_[elsewhere].index.y, lanes_[elsewhere].index.z, lanes_[elsewhere].line);
  for (unsigned i = 0; i < count_; ++i)
    if (state_[i] == State::returned)
      fail("divergence", lane.line, "a thread waits at %s in line %d, while thread (%u,%u,%u) has returned", where,
           lane.line, lanes_[i].index.x, lanes_[i].index.y, lanes_[i].index.z);
  fail("divergence", lane.line, "threads wait at %s in line %d %s that never arrive", where, lane.line,
       state_[waiting] == State::at_barrier ? "for threads" : "with masks of lanes");
}

inline void Block::fail_diverged(unsigned first, int first_line, int line) const {
  fail("divergence", first_line, "thread (%u,%u,%u) waits in line %d, while a thread of its block waits in line %d",
       lanes_[first].index.x, lanes_[first].index.y, lanes_[first].index.z, first_line, line);
}

int block_barrier(Vote vote, int predicate, int line) { return running_block->barrier(vote, predicate, line); }
void named_barrier(unsigned id, unsigned count, int line) { running_block->named_barrier(id, count, line); }

}  // namespace cugen
