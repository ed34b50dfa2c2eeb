// Work-group scheduler: one block at a time on one worker. Each thread runs until it waits or returns.
//
// Threads are fibers. One fiber runs threads one after another as long as they don't wait; a new fiber is needed only
// while a waiting thread occupies the current one.
#pragma once

#include <stdint.h>
#include <string.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "async_copies.h"
#include "fiber.h"
#include "mbarriers.h"
#include "memory_order.h"
#include "repeated_writes.h"
#include "report.h"
#include "shared_memory.h"
#include "shared_values.h"
#include "spin_waiters.h"
#include "sync_clock.h"
#include "tensor_copies.h"
#include "warpgroup.h"

namespace cugen {

constexpr unsigned kMaximumThreads = 1024;  // per block (CUDA programming guide, technical specifications)
constexpr unsigned kBarriers = 16;          // per block; barrier 0 is __syncthreads()

struct Launch {
  const Kernel* kernel;
  void* const* parameters;
  uint3 grid;
  uint3 block;
  unsigned number;  // in the launch list
  bool shuffled;
  uint64_t seed;
};

// What a block does that is not running.
enum class Pause : uint8_t { runnable, at_mbarrier, at_cluster_barrier, ended };

// An arrival at an mbarrier by a thread of another block.
struct RemoteArrival {
  const void* barrier;
  int line;
  uint3 thread, block;
  Order order;
};

enum class State : uint8_t { unstarted, ready, at_barrier, at_collective, at_mbarrier, returned };

struct Lane {
  Fiber* fiber;
  uint3 index;
  int line;  // of the wait
  uint64_t value;
  uint64_t result;
  unsigned argument;
  uint64_t seen_changes;  // value of `changes` at its last poll
  bool is_stalled;        // no change between its last two polls
  const void* mbarrier;   // at which it waits
};

// A warp collective at which some lanes of its mask have arrived.
struct PendingCollective {
  Collective kind;
  unsigned mask;
  unsigned arrived;
  unsigned width;
  int line;
};

// A named barrier (bar.sync id, n) at which some threads have arrived.
struct NamedBarrier {
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

  // `shared` is what is known of its shared memory.
  void begin(const Launch& launch, uint64_t linear, const std::vector<MemoryRange>& shared) {
    launch_ = &launch;
    shared_ = &shared;
    linear_ = linear;
    const uint3 block = launch.block;
    count_ = block.x * block.y * block.z;
    memset(state_, static_cast<int>(State::unstarted), count_);
    for (unsigned i = 0; i < count_; ++i) order_[i] = static_cast<uint16_t>(i);
    if (launch.shuffled) {
      random_.seed(static_cast<unsigned>(launch.seed * 31 + launch.number * 17 + linear + 1));
      for (unsigned i = count_; i > 1; --i) std::swap(order_[i - 1], order_[random_() % i]);
    }
    for (std::vector<PendingCollective>& warp : pending_collectives_) warp.clear();
    mbarriers_.clear();
    loads_.clear();
    addresses_.begin(shared);
    for (Warpgroup& warpgroup : warpgroups_) warpgroup.clear();
    returned_ = waiting_ = position_ = 0;
    cluster_barriers_ = 0;
    has_begun_ = false;
    pause_ = Pause::runnable;
  }

  // Runs the threads until all have returned, all wait at the cluster barrier, or only other blocks can continue them.
  void resume() {
    running_block = this;
    if (!has_begun_) sync_clock.begin_block(launch_->number, linear_);
    memory_order.begin_block(linear_ / launch_->kernel->cluster);
    take_remote_arrivals();
    set_index();
    switch_fiber(host_, has_begun_ ? *lanes_[lane_].fiber : free_fiber());
    if (returned_ == count_) {
      check_loads_have_arrived();
      pause_ = Pause::ended;
    }
    repeated_writes.check();
    shared_values.end_interval();
    has_begun_ = true;
    running_block = nullptr;
  }

  // All blocks of the cluster wait at its barrier.
  void pass_cluster_barrier() {
    if (pause_ == Pause::at_cluster_barrier) pause_ = Pause::runnable;
  }

  // Reports a thread that nothing can continue. `others` is what the other blocks of the cluster do.
  [[noreturn]] void report_hang(const std::string& others) {
    running_block = this;
    set_index();
    report_mbarriers(others);
  }

  Pause pause() const { return pause_; }
  bool has_begun() const { return has_begun_; }
  bool has_ended() const { return pause_ == Pause::ended; }
  unsigned progress();  // the most of the mbarriers at which threads wait (Mbarrier::progress), or 0
  int mbarrier_line() const { return lanes_[first_at_mbarrier()].line; }  // of a wait
  int line() const { return barrier_.line; }  // of the last barrier
  unsigned thread() const { return lane_; }
  AsyncCopies& copies() { return copies_[lane_]; }
  TensorStores& stores() { return stores_[lane_]; }
  SharedAddresses& addresses() { return addresses_; }
  const std::vector<MemoryRange>& shared() const { return *shared_; }

  // Whether the address is one of the running thread's stack.
  bool is_on_stack(const void* address) const {
    const Fiber& fiber = *lanes_[lane_].fiber;
    return address >= fiber.bottom && address < static_cast<const char*>(fiber.bottom) + fiber.size;
  }

  // Of barriers (barriers.h).
  int barrier(Vote vote, int predicate, int line);
  void named_barrier(unsigned id, unsigned count, int line);

  uint64_t collective(Collective kind, unsigned mask, uint64_t value, unsigned argument, unsigned width, int line);

  // Of the async proxy (async_proxy.h).
  void init_mbarrier(void* barrier, unsigned arrivals, int line);
  void arrive_mbarrier(void* barrier, unsigned bytes, int line);
  void await_mbarrier(void* barrier, unsigned parity, int line);
  void load_box(const Box& box, void* barrier, const void* code_address);
  void check_load(const Box& box) const;
  void add_load(const Box& box, const void* barrier, void* memory);  // `memory` as for TensorLoads::add
  void check_mbarrier(unsigned rank, const void* address, int line);
  void add_remote_arrival(const RemoteArrival& arrival);
  void store_box(const Box& box, const void* code_address);
  void warpgroup_step(WarpgroupStep step, const void* code_address);

  // Between two polls of a spin-wait: switches to another thread.
  void yield_polling(int line) {
    const uint64_t now = changes;
    Lane& lane = lanes_[lane_];
    lane.line = line;
    lane.is_stalled = lane.seen_changes == now;
    lane.seen_changes = now;
    const auto is_eligible = [&](unsigned i) {
      const bool is_idle = lanes_[i].is_stalled && lanes_[i].seen_changes == now;
      return i != lane_ && (state_[i] == State::unstarted || (state_[i] == State::ready && !is_idle));
    };
    unsigned position = next(is_eligible);
    if (position == kNone && deliver()) position = next(is_eligible);
    if (position != kNone) {
      switch_to(position);
    } else if (lane.is_stalled) {
      if (spin_waiters.all_stalled(idle_since_, now))
        fail("hang", line, "a thread spins in line %d on memory that no running thread can write", line);
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

  // Position of the next thread in cyclic order that satisfies the predicate.
  template <class Predicate>
  unsigned next(Predicate is_eligible) const {
    for (unsigned p = position_ + 1; p < count_; ++p)
      if (is_eligible(order_[p])) return p;
    for (unsigned p = 0; p <= position_; ++p)
      if (is_eligible(order_[p])) return p;
    return kNone;
  }

  // Position of the next runnable thread, which may be this one. Loads arrive only when there is none, and the other
  // blocks of the cluster run when none arrives.
  unsigned next() {
    const auto is_runnable = [this](unsigned i) { return state_[i] <= State::ready; };
    for (;;) {
      unsigned position = next(is_runnable);
      if (position == kNone && deliver()) position = next(is_runnable);
      if (position != kNone) return position;
      if (launch_->kernel->cluster == 1 || first_at_mbarrier() == count_) report_deadlock();
      yield_to_cluster(Pause::at_mbarrier);
    }
  }

  // Number of the first thread that waits at an mbarrier, or the number of threads.
  unsigned first_at_mbarrier() const {
    return static_cast<unsigned>(std::find(state_, state_ + count_, State::at_mbarrier) - state_);
  }

  unsigned progress_of(unsigned thread);

  void set_index() const {
    const uint3 grid = launch_->grid;
    blockIdx = {static_cast<unsigned>(linear_ % grid.x), static_cast<unsigned>(linear_ / grid.x % grid.y),
                static_cast<unsigned>(linear_ / grid.x / grid.y)};
    blockDim = launch_->block;
    gridDim = grid;
  }

  // Delivers awaited loads until the phase of an mbarrier ends, in random order where threads are shuffled. False if no
  // phase does.
  bool deliver();
  void take_remote_arrivals();

  // Another block may have continued a thread.
  void wake() {
    if (pause_ == Pause::at_mbarrier) pause_ = Pause::runnable;
  }
  void end_phase(const Mbarrier& barrier);
  void check_shared(const char* what, const MemoryRange& range, int line) const;
  void check_loads_have_arrived() const;

  void wait(State state, int line) {
    lanes_[lane_].line = line;
    state_[lane_] = state;
    const unsigned position = next();
    if (order_[position] != lane_) switch_to(position);
  }

  // Returns to the cluster scheduler, which runs the cluster's other blocks.
  void yield_to_cluster(Pause pause) {
    const unsigned lane = lane_;
    pause_ = pause;
    switch_fiber(*lanes_[lane].fiber, host_);
    make_current(lane);
  }

  void switch_to(unsigned position) {
    const unsigned lane = lane_;
    position_ = position;
    const unsigned target = order_[position_];
    switch_fiber(*lanes_[lane].fiber, state_[target] == State::unstarted ? free_fiber() : *lanes_[target].fiber);
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

  // Main function of a fiber: runs the thread at `position_` to its end, then the next runnable one.
  [[noreturn]] void work() {
    enter_fiber(host_);
    Fiber& self = *entering_;
    for (;;) {
      const unsigned lane = order_[position_];
      const unsigned x = launch_->block.x, y = launch_->block.y;
      lanes_[lane].fiber = &self;
      lanes_[lane].seen_changes = 0;
      lanes_[lane].is_stalled = false;
      lanes_[lane].index = {lane % x, lane / x % y, lane / (x * y)};
      state_[lane] = State::ready;
      make_current(lane);
      launch_->kernel->invoke(launch_->parameters);
      copies_[lane_].finish();
      stores_[lane_].finish();
      warpgroups_[lane_ / kWarpgroup].finish(lane_ % kWarpgroup);
      state_[lane_] = State::returned;
      Fiber* to = &host_;
      if (++returned_ < count_) {
        position_ = next();
        if (state_[order_[position_]] == State::unstarted) continue;
        to = lanes_[order_[position_]].fiber;
      }
      free_.push_back(&self);
      switch_fiber(self, *to);
    }
  }

  [[noreturn]] void report_mbarriers(const std::string& blocks);

  [[noreturn]] void report_deadlock();
  [[noreturn]] void fail_diverged(unsigned first, int first_line, int line) const;

  // Mask of the existing lanes of the warp that begins with thread `first`.
  unsigned lanes_from(unsigned first) const { return count_ - first < 32 ? (1u << (count_ - first)) - 1 : ~0u; }

  void finish(NamedBarrier& barrier);
  void finish(const PendingCollective& pending, unsigned first_lane);

  struct BlockBarrier {
    Vote vote;
    int line;
    unsigned first;
    unsigned votes;
  };

  const Launch* launch_ = nullptr;
  uint64_t linear_ = 0, idle_since_ = 0;
  uint32_t cluster_barriers_ = 0;  // that the block has reached
  Pause pause_ = Pause::runnable;
  bool has_begun_ = false;
  unsigned count_ = 0, returned_ = 0, waiting_ = 0, position_ = 0, lane_ = 0;
  int result_ = 0;
  BlockBarrier barrier_{};
  NamedBarrier named_barriers_[kBarriers] = {};
  Fiber host_;
  Fiber* entering_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> free_;
  State state_[kMaximumThreads];
  uint16_t order_[kMaximumThreads];
  Lane lanes_[kMaximumThreads];
  std::vector<PendingCollective> pending_collectives_[kMaximumThreads / 32];
  AsyncCopies copies_[kMaximumThreads];
  const std::vector<MemoryRange>* shared_ = nullptr;
  std::minstd_rand random_;
  Mbarriers mbarriers_;
  TensorLoads loads_;
  std::vector<RemoteArrival> remote_arrivals_;  // since the block last ran
  TensorStores stores_[kMaximumThreads];
  SharedAddresses addresses_;
  Warpgroup warpgroups_[kMaximumThreads / kWarpgroup];
};

void yield_polling_thread(int line) { running_block->yield_polling(line); }
void enqueue_copy(void* destination, const void* data, size_t bytes) {
  running_block->copies().add(destination, data, bytes, __builtin_return_address(0));
}
void commit_copies() { running_block->copies().commit(); }
void await_copies(size_t pending) { running_block->copies().await(pending); }
unsigned live_lanes() { return running_block->live_lanes(); }
uint64_t warp_collective(Collective kind, unsigned mask, uint64_t value, unsigned argument, unsigned width, int line) {
  return running_block->collective(kind, mask, value, argument, width, line);
}

}  // namespace cugen
