// One block at a time, on one worker: lanes run in order until each waits or returns.
//
// A lane that never waits costs no switch: one fiber runs lane after lane, and another is begun only when a lane is
// left waiting on it.
#pragma once

#include <stdint.h>
#include <string.h>

#include <algorithm>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "copies.h"
#include "fiber.h"
#include "report.h"
#include "waiting.h"
#include "watch.h"

namespace cugen {

constexpr unsigned kMaximumThreads = 1024;
constexpr unsigned kBarriers = 16;  // of a block, by number; the first is that of all its threads

struct Launch {
  const Kernel* kernel;
  void* const* parameters;
  uint3 grid;
  uint3 block;
  unsigned number;  // of the launch in the list
  bool shuffled;
  uint64_t seed;
};

enum class State : uint8_t { unstarted, ready, at_barrier, at_collective, returned };

struct Lane {
  Fiber* fiber;
  uint3 index;
  int line;  // where it waits
  uint64_t value;
  uint64_t result;
  unsigned argument;
  uint64_t polled;  // the changes it knew of when it last looked at what it waits for
  bool in_vain;     // it looked twice with no change between
};

// Lanes that have come to one collective, and wait for the rest of their mask.
struct Gathering {
  Collective kind;
  unsigned mask;
  unsigned arrived;
  unsigned width;
  int line;
};

// Threads that have come to one named barrier, and wait for the rest of its count.
struct Meeting {
  unsigned count;
  unsigned arrived;
  unsigned first;
  int line;
  unsigned lanes[kMaximumThreads / 32];  // by warp
};

class Block {
 public:
  ~Block() {
    for (const std::unique_ptr<Fiber>& fiber : fibers_) destroy_fiber(*fiber);
  }

  void begin(const Launch& launch, uint64_t linear) {
    launch_ = &launch;
    linear_ = linear;
    const uint3 block = launch.block;
    count_ = block.x * block.y * block.z;
    memset(state_, static_cast<int>(State::unstarted), count_);
    for (unsigned i = 0; i < count_; ++i) order_[i] = static_cast<uint16_t>(i);
    if (launch.shuffled) {
      std::minstd_rand random(static_cast<unsigned>(launch.seed * 31 + launch.number * 17 + linear + 1));
      for (unsigned i = count_; i > 1; --i) std::swap(order_[i - 1], order_[random() % i]);
    }
    for (std::vector<Gathering>& warp : gatherings_) warp.clear();
    returned_ = waiting_ = position_ = 0;
    interval_ = 0;
    has_begun_ = false;
  }

  // Runs the block's threads until all have ended, or all wait at the cluster's barrier. Says whether they wait.
  bool resume() {
    const uint3 grid = launch_->grid;
    blockIdx = {static_cast<unsigned>(linear_ % grid.x), static_cast<unsigned>(linear_ / grid.x % grid.y),
                static_cast<unsigned>(linear_ / grid.x / grid.y)};
    blockDim = launch_->block;
    gridDim = grid;
    running_block = this;
    watch.begin_block(launch_->number, linear_, interval_);
    switch_fiber(host_, has_begun_ ? *lanes_[lane_].fiber : free_fiber());
    interval_ = watch.end_block();
    has_begun_ = true;
    running_block = nullptr;
    return returned_ < count_;
  }

  bool has_begun() const { return has_begun_; }
  bool has_ended() const { return returned_ == count_; }
  int line() const { return barrier_.line; }  // of the barrier that its threads came to last
  unsigned thread() const { return lane_; }
  Copies& copies() { return copies_[lane_]; }

  int barrier(Vote vote, int predicate, int line) {
    if (waiting_ == 0) {
      barrier_ = {vote, line, lane_, 0};
    } else if (line != barrier_.line || vote != barrier_.vote) {
      fail_with_both(barrier_.first, barrier_.line, line);
    }
    barrier_.votes += predicate != 0;
    if (++waiting_ == count_) {
      waiting_ = 0;
      result_ = vote == Vote::count ? static_cast<int>(barrier_.votes)
                : vote == Vote::all ? barrier_.votes == count_
                                    : barrier_.votes != 0;
      memset(state_, static_cast<int>(State::ready), count_);
      watch.block_barrier();
      if (vote == Vote::cluster) leave();
      return result_;
    }
    wait(State::at_barrier, line);
    return result_;
  }

  void meet(unsigned id, unsigned count, int line) {
    const unsigned all = (count_ + 31) / 32 * 32;
    if (id == 0 || id >= kBarriers)
      fail("divergence", line, "a thread comes to barrier %u: those of some of a block's warps are 1 to %u", id,
           kBarriers - 1);
    if (count == 0 || count % 32 != 0 || count > all)
      fail("divergence", line, "a thread comes to a barrier of %u threads: no whole warps of a block of %u", count,
           count_);
    Meeting& meeting = meetings_[id];
    if (meeting.arrived == 0) {
      meeting = {count, 0, lane_, line, {}};
    } else if (line != meeting.line) {
      fail_with_both(meeting.first, meeting.line, line);
    } else if (count != meeting.count) {
      fail("divergence", line, "a thread comes to barrier %u for %u threads, while one waits there for %u", id, count,
           meeting.count);
    }
    meeting.lanes[lane_ / 32] |= 1u << (lane_ & 31u);
    // A count is of whole warps: the block's last thread stands for the lanes that its warp lacks, too.
    meeting.arrived += lane_ + 1 == count_ ? all - lane_ : 1;
    if (meeting.arrived < count) {
      wait(State::at_barrier, line);
    } else {
      finish(meeting);
    }
  }

  uint64_t collective(Collective kind, unsigned mask, uint64_t value, unsigned argument, unsigned width, int line);

  // Between two looks at memory that another thread is to write: lets others go on.
  void pause(int line) {
    const uint64_t now = changes;
    Lane& lane = lanes_[lane_];
    lane.line = line;
    lane.in_vain = lane.polled == now;
    lane.polled = now;
    const unsigned other = next([&](unsigned i) {
      const bool is_idle = lanes_[i].in_vain && lanes_[i].polled == now;
      return state_[i] == State::unstarted || (state_[i] == State::ready && !is_idle);
    });
    if (other != kNone) {
      switch_to(other);
    } else if (lane.in_vain) {
      if (waiting.all_with(idle_since_, now))
        fail("hang", line, "a thread waits in line %d for what no thread is left to write", line);
      std::this_thread::yield();
    }
  }

  unsigned live_lanes() const {
    unsigned mask = 0;
    for (unsigned i = lane_ & ~31u; i < std::min(count_, (lane_ | 31u) + 1); ++i)
      if (state_[i] != State::returned) mask |= 1u << (i & 31u);
    return mask;
  }

 private:
  static constexpr unsigned kNone = ~0u;

  // The next lane in the cyclic order that is of use, as a position.
  template <class Use>
  unsigned next(Use is_of_use) const {
    for (unsigned p = position_ + 1; p < count_; ++p)
      if (is_of_use(order_[p])) return p;
    for (unsigned p = 0; p < position_; ++p)
      if (is_of_use(order_[p])) return p;
    return kNone;
  }

  // The next one that could run.
  unsigned next() const {
    return next([this](unsigned i) { return state_[i] <= State::ready; });
  }

  void wait(State state, int line) {
    lanes_[lane_].line = line;
    state_[lane_] = state;
    const unsigned position = next();
    if (position == kNone) stuck();
    switch_to(position);
  }

  // Lets the worker go on with the cluster's other blocks.
  void leave() {
    const unsigned lane = lane_;
    switch_fiber(*lanes_[lane].fiber, host_);
    make_current(lane);
  }

  void switch_to(unsigned position) {
    const unsigned lane = lane_;
    position_ = position;
    const unsigned other = order_[position_];
    switch_fiber(*lanes_[lane].fiber, state_[other] == State::unstarted ? free_fiber() : *lanes_[other].fiber);
    make_current(lane);
  }

  void make_current(unsigned lane) {
    lane_ = lane;
    threadIdx = lanes_[lane].index;
  }

  Fiber& free_fiber() {
    if (free_.empty()) {
      fibers_.push_back(std::make_unique<Fiber>());
      create_fiber(*fibers_.back(), fibers_.size(), [] { running_block->work(); });
      free_.push_back(fibers_.back().get());
    }
    entering_ = free_.back();
    free_.pop_back();
    return *entering_;
  }

  // A fiber's whole life: begins the lane at `position_`, runs it to its end, goes on with what can run.
  [[noreturn]] void work() {
    enter_fiber(host_);
    Fiber& self = *entering_;
    for (;;) {
      const unsigned lane = order_[position_];
      const unsigned x = launch_->block.x, y = launch_->block.y;
      lanes_[lane].fiber = &self;
      lanes_[lane].polled = 0;
      lanes_[lane].in_vain = false;
      lanes_[lane].index = {lane % x, lane / x % y, lane / (x * y)};
      state_[lane] = State::ready;
      make_current(lane);
      launch_->kernel->invoke(launch_->parameters);
      copies_[lane_].finish();
      state_[lane_] = State::returned;
      Fiber* to = &host_;
      if (++returned_ < count_) {
        position_ = next();
        if (position_ == kNone) stuck();
        if (state_[order_[position_]] == State::unstarted) continue;
        to = lanes_[order_[position_]].fiber;
      }
      free_.push_back(&self);
      switch_fiber(self, *to);
    }
  }

  // No lane can go on: say who waits where, and for whom.
  [[noreturn]] void stuck() {
    unsigned waiting = kNone, other = kNone;
    for (unsigned i = 0; i < count_; ++i)
      if (state_[i] == State::at_barrier || state_[i] == State::at_collective) {
        if (waiting == kNone) waiting = i;
        else if (other == kNone && lanes_[i].line != lanes_[waiting].line) other = i;
      }
    const Lane& lane = lanes_[waiting];
    const char* const where = state_[waiting] == State::at_barrier ? "the barrier" : "the warp collective";
    make_current(waiting);
    if (other != kNone)
      fail("divergence", lane.line, "a thread waits at %s in line %d, while thread (%u,%u,%u) waits in line %d", where,
           lane.line, lanes_[other].index.x, lanes_[other].index.y, lanes_[other].index.z, lanes_[other].line);
    for (unsigned i = 0; i < count_; ++i)
      if (state_[i] == State::returned)
        fail("divergence", lane.line, "a thread waits at %s in line %d, while thread (%u,%u,%u) has returned", where,
             lane.line, lanes_[i].index.x, lanes_[i].index.y, lanes_[i].index.z);
    fail("divergence", lane.line, "threads wait at %s in line %d %s which never come", where, lane.line,
         state_[waiting] == State::at_barrier ? "for others" : "with masks that name lanes");
  }

  [[noreturn]] void fail_with_both(unsigned first, int first_line, int line) {
    fail("divergence", first_line, "thread (%u,%u,%u) waits in line %d, while a thread of its block waits in line %d",
         lanes_[first].index.x, lanes_[first].index.y, lanes_[first].index.z, first_line, line);
  }

  // The lanes that the warp which begins with lane `first` has.
  unsigned lanes_from(unsigned first) const { return count_ - first < 32 ? (1u << (count_ - first)) - 1 : ~0u; }

  void finish(Meeting& meeting) {
    unsigned warps = 0;
    for (unsigned first = 0; first < count_; first += 32) {
      const unsigned lanes = meeting.lanes[first / 32];
      if (lanes == 0) continue;
      if (const unsigned absent = lanes_from(first) & ~lanes)
        fail("divergence", meeting.line,
             "%u threads meet at the barrier in line %d without thread number %u, whose warp is there", meeting.count,
             meeting.line, first + static_cast<unsigned>(__builtin_ctz(absent)));
      memset(state_ + first, static_cast<int>(State::ready), std::min(count_ - first, 32u));
      warps |= 1u << (first / 32);
    }
    meeting.arrived = 0;
    watch.named_barrier(warps);
  }

  void finish(const Gathering& gathering, unsigned first_lane);

  struct Barrier {
    Vote vote;
    int line;
    unsigned first;
    unsigned votes;
  };

  const Launch* launch_ = nullptr;
  uint64_t linear_ = 0, idle_since_ = 0;
  uint32_t interval_ = 0;
  bool has_begun_ = false;
  unsigned count_ = 0, returned_ = 0, waiting_ = 0, position_ = 0, lane_ = 0;
  int result_ = 0;
  Barrier barrier_{};
  Meeting meetings_[kBarriers] = {};
  Fiber host_;
  Fiber* entering_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> free_;
  State state_[kMaximumThreads];
  uint16_t order_[kMaximumThreads];
  Lane lanes_[kMaximumThreads];
  std::vector<Gathering> gatherings_[kMaximumThreads / 32];
  Copies copies_[kMaximumThreads];
};

void pause_thread(int line) { running_block->pause(line); }
int block_barrier(Vote vote, int predicate, int line) { return running_block->barrier(vote, predicate, line); }
void named_barrier(unsigned id, unsigned count, int line) { running_block->meet(id, count, line); }
void delay_copy(void* destination, const void* data, size_t bytes) {
  running_block->copies().add(destination, data, bytes, __builtin_return_address(0));
}
void commit_copies() { running_block->copies().commit(); }
void await_copies(size_t pending) { running_block->copies().await(pending); }
unsigned live_lanes() { return running_block->live_lanes(); }
uint64_t warp_collective(Collective kind, unsigned mask, uint64_t value, unsigned argument, unsigned width, int line) {
  return running_block->collective(kind, mask, value, argument, width, line);
}

}  // namespace cugen
