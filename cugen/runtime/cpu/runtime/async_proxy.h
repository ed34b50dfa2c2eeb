// The async proxy of a block: copies by TMA, the mbarriers that they signal, and wgmma. Each happens as late as a kernel
// may rely on, so that a missing wait shows.
#pragma once

#include <string>

#include "block.h"
#include "collective.h"

namespace cugen {

// Barriers, reads and copies by the async proxy, for the race detector (trace.h).
#if defined(CUGEN_TRACE)
void record_async_read(const void* address, size_t bytes, const void* code_address, int line);
void record_load(const Box& box, unsigned blocks, const void* code_address);  // of these ranks
void record_arrival(const Box& box);
void record_store(const Box& box, const void* code_address);
void record_proxy_fence();
void record_barrier(void* barrier, bool is_init, const void* code_address);
#else
inline void record_async_read(const void*, size_t, const void*, int) {}
inline void record_load(const Box&, unsigned, const void*) {}
inline void record_arrival(const Box&) {}
inline void record_store(const Box&, const void*) {}
inline void record_proxy_fence() {}
inline void record_barrier(void*, bool, const void*) {}
#endif

inline void Block::check_shared(const char* what, const MemoryRange& range, int line) const {
  require_shared(what, range.start, line);
  for (const MemoryRange& memory : *shared_)
    if (memory.contains(range.start) && !memory.contains(range.start + range.bytes - 1))
      fail("out-of-bounds", line, "%s of %zu bytes, %zu bytes before the end of shared memory", what, range.bytes,
           static_cast<size_t>(memory.start + memory.bytes - range.start));
}

inline void Block::check_load(const Box& box) const {
  check_box("TMA load", box);
  check_shared("target of a TMA load", box.range(), box.line);
}

inline void Block::init_mbarrier(void* barrier, unsigned arrivals, int line) {
  if (reinterpret_cast<uintptr_t>(barrier) % 8 != 0) fail_misaligned("mbarrier", barrier, 8, line);
  check_shared("mbarrier", {static_cast<char*>(barrier), 8}, line);
  mbarriers_.init(barrier, arrivals, cluster_barriers_, line);
}

inline void Block::arrive_mbarrier(void* address, unsigned bytes, int line) {
  Mbarrier& barrier = mbarriers_.at(address, line);
  sync_clock.arrive(address, sync_clock.release(lane_));
  if (mbarriers_.arrive(barrier, bytes, line)) end_phase(barrier);
}

inline void Block::add_remote_arrival(const RemoteArrival& arrival) {
  remote_arrivals_.push_back(arrival);
  wake();
}

// Faults are those of the thread that arrived.
inline void Block::take_remote_arrivals() {
  for (const RemoteArrival& arrival : remote_arrivals_) {
    threadIdx = arrival.thread;
    blockIdx = arrival.block;
    Mbarrier& barrier = mbarriers_.at(arrival.barrier, arrival.line);
    sync_clock.arrive(arrival.barrier, arrival.order);
    if (mbarriers_.arrive(barrier, 0, arrival.line)) end_phase(barrier);
  }
  remote_arrivals_.clear();
}

// For another block, which uses an mbarrier of this one, of rank `rank`.
inline void Block::check_mbarrier(unsigned rank, const void* address, int line) {
  const Mbarrier& barrier = mbarriers_.known(address, line);
  if (this != running_block && barrier.cluster_barriers == cluster_barriers_)
    fail("race", line, "the mbarrier of block rank %u is used with no cluster barrier since line %d initialised it", rank,
         barrier.line);
}

// A thread that is woken polls again: the next phase may have ended, too.
inline void Block::await_mbarrier(void* address, unsigned parity, int line) {
  if (parity > 1) fail("undefined", line, "the parity of an mbarrier's phase is 0 or 1, not %u", parity);
  while (mbarriers_.at(address, line).parity == parity) {
    lanes_[lane_].mbarrier = address;
    wait(State::at_mbarrier, line);
  }
  sync_clock.await(address, lane_);
}

inline void Block::end_phase(const Mbarrier& barrier) {
  sync_clock.end_phase(barrier.word);
  for (unsigned i = 0; i < count_; ++i)
    if (state_[i] == State::at_mbarrier && lanes_[i].mbarrier == barrier.word) state_[i] = State::ready;
}

inline bool Block::deliver() {
  for (;;) {
    std::vector<size_t> awaited;
    for (size_t i = 0; i < loads_.outstanding().size(); ++i)
      for (unsigned thread = 0; thread < count_; ++thread)
        if (state_[thread] == State::at_mbarrier && lanes_[thread].mbarrier == loads_.outstanding()[i].barrier) {
          awaited.push_back(i);
          break;
        }
    if (awaited.empty()) return false;
    const TensorLoads::Load arrived = loads_.take(awaited[launch_->shuffled ? random_() % awaited.size() : 0]);
    load(arrived.box);
    record_arrival(arrived.box);
    Mbarrier& barrier = mbarriers_.at(arrived.barrier, arrived.box.line);
    if (mbarriers_.complete(barrier, static_cast<uint32_t>(arrived.box.bytes()), arrived.box.line)) {
      end_phase(barrier);
      return true;
    }
  }
}

inline void Block::load_box(const Box& box, void* barrier, const void* code_address) {
  check_load(box);
  mbarriers_.at(barrier, box.line);
  for (unsigned first = 0; first < count_; first += kWarpgroup)
    if (const int other = warpgroups_[first / kWarpgroup].reads().unordered_line(box.range(), first / 32, lane_))
      fail("race", box.line, "a TMA load to operands that the wgmma in line %d has read, with no barrier since then", other);
  add_load(box, barrier, box.start);
  record_load(box, 1u << cluster_rank(), code_address);
}

inline void Block::add_load(const Box& box, const void* barrier, void* memory) {
  if (const int other = loads_.line_of(box.range()))
    fail("race", box.line, "a TMA load to bytes that the one in line %d has not written yet: no wait for it", other);
  for (unsigned i = 0; i < count_; ++i)
    if (const int other = stores_[i].line_of(box.range()))
      fail("race", box.line, "a TMA load to bytes that the TMA store in line %d has not read yet: no wait for it", other);
  for (const Warpgroup& warpgroup : warpgroups_)
    if (const int other = warpgroup.line_of(box.range()))
      fail("race", box.line, "a TMA load to operands of the wgmma in line %d, which is in flight: no wait for it", other);
  loads_.add(box, barrier, memory);
  wake();
}

inline void Block::check_loads_have_arrived() const {
  for (const TensorLoads::Load& load : loads_.outstanding())
    fail("undefined", load.box.line, "the block ends before the TMA load in line %d has arrived: no wait for it", load.box.line);
}

inline void Block::store_box(const Box& box, const void* code_address) {
  check_box("TMA store", box);
  check_shared("source of a TMA store", box.range(), box.line);
  if (const int other = loads_.line_of(box.range()))
    fail("race", box.line, "a TMA store of bytes that the TMA load in line %d has not written yet: no wait for it", other);
  for_each_piece_inside(box, [&](const char* piece, size_t bytes) {
    record_async_read(piece, bytes, code_address, box.line);
  });
  record_store(box, code_address);
  stores().add(box);
}

inline void Block::warpgroup_step(WarpgroupStep step, const void* code_address) {
  const unsigned first = lane_ / kWarpgroup * kWarpgroup, number = lane_ - first;
  const int line = step.line;
  if (count_ - first < kWarpgroup)
    fail("divergence", line, "a warpgroup of %u threads executes line %d: it needs %u", count_ - first, line, kWarpgroup);
  Warpgroup& warpgroup = warpgroups_[lane_ / kWarpgroup];
  const bool is_multiply = step.operation == WarpgroupOperation::multiply;
  if (is_multiply) step.accumulators = warpgroup.take_accumulators(number, step.wgmma, line);
  const bool is_first = warpgroup.advance(number, step);
  if (step.operation == WarpgroupOperation::fence) warpgroup.fence(number);
  if (step.operation == WarpgroupOperation::commit && is_first) warpgroup.commit();
  // A thread of each warp looks whether the operands have arrived.
  if (is_multiply && (is_first || lane_ % 32 == 0)) {
    const Wgmma& wgmma = step.wgmma;
    const Multiplication multiplication = {
        step, matrix_of(wgmma.a, wgmma.a_type, wgmma.a_is_mn_major, kWgmmaRows, addresses_, line),
        matrix_of(wgmma.b, wgmma.b_type, wgmma.b_is_mn_major, wgmma.n, addresses_, line)};
    for (const SharedMatrix* matrix : {&multiplication.a, &multiplication.b})
      matrix->for_each_chunk([&](char* chunk) {
        const MemoryRange range = {chunk, kChunkBytes};
        const auto is_around = [=](const MemoryRange& memory) { return memory.contains(chunk); };
        if (!shared_->empty() && std::none_of(shared_->begin(), shared_->end(), is_around))
          fail("out-of-bounds", line, "wgmma reads an operand outside shared memory");
        if (const int other = loads_.line_of(range))
          fail("race", line, "wgmma reads what the TMA load in line %d has not written yet: no wait for it", other);
        if (is_first) record_async_read(chunk, kChunkBytes, code_address, line);
      });
    if (is_first) warpgroup.add(multiplication);
  }
  if (step.operation != WarpgroupOperation::wait) return;
  if (!warpgroup.arrive()) {
    wait(State::at_collective, line);
    return;
  }
  warpgroup.finish_wait(step.pending);
  memset(state_ + first, static_cast<int>(State::ready), kWarpgroup);
}

// 0 for a thread that waits for something else.
inline unsigned Block::progress_of(unsigned thread) {
  const Lane& lane = lanes_[thread];
  return state_[thread] == State::at_mbarrier ? mbarriers_.known(lane.mbarrier, lane.line).progress() : 0;
}

inline unsigned Block::progress() {
  unsigned most = 0;
  for (unsigned i = 0; i < count_; ++i) most = std::max(most, progress_of(i));
  return most;
}

inline void Block::report_mbarriers(const std::string& blocks) {
  const unsigned most = progress();
  unsigned waiting = 0;
  while (progress_of(waiting) != most) ++waiting;
  const int line = lanes_[waiting].line;
  const Mbarrier& barrier = mbarriers_.at(lanes_[waiting].mbarrier, line);
  std::vector<int> lines;
  for (unsigned i = 0; i < count_; ++i)
    if (state_[i] != State::returned && lanes_[i].line != line &&
        std::find(lines.begin(), lines.end(), lanes_[i].line) == lines.end())
      lines.push_back(lanes_[i].line);
  std::string others;
  for (const int other : lines) others += (others.empty() ? "; others wait in line " : ", ") + std::to_string(other);
  make_current(waiting);
  fail("hang", line,
       "a thread waits in line %d for the mbarrier that line %d initialised, whose phase lacks %u of %u arrivals and %d bytes%s%s",
       line, barrier.line, barrier.pending, barrier.arrivals, barrier.bytes, others.c_str(), blocks.c_str());
}

void init_mbarrier(void* barrier, unsigned arrivals, int line) {
  running_block->init_mbarrier(barrier, arrivals, line);
  record_barrier(barrier, true, __builtin_return_address(0));
}
void arrive_mbarrier(void* barrier, unsigned bytes, int line) {
  record_barrier(barrier, false, __builtin_return_address(0));
  running_block->arrive_mbarrier(barrier, bytes, line);
}
void await_mbarrier(void* barrier, unsigned parity, int line) {
  record_barrier(barrier, false, __builtin_return_address(0));
  running_block->await_mbarrier(barrier, parity, line);
}
void load_box(void* target, const CUtensorMap& map, void* barrier, const BoxCoordinates& first, int line) {
  running_block->load_box({map, first, static_cast<char*>(target), line}, barrier, __builtin_return_address(0));
}
void store_box(const CUtensorMap& map, const void* source, const BoxCoordinates& first, int line) {
  char* const start = static_cast<char*>(const_cast<void*>(source));
  running_block->store_box({map, first, start, line}, __builtin_return_address(0));
}
void commit_stores() { running_block->stores().commit(); }
void await_stores(size_t pending) {
  running_block->stores().await(pending, [](const Box& box) { record_store(box, nullptr); });
}
void fence_async_proxy() { record_proxy_fence(); }
void issue_wgmma(const Wgmma& wgmma, int line) {
  running_block->warpgroup_step({WarpgroupOperation::multiply, line, 0, 0, wgmma}, __builtin_return_address(0));
}
void fence_wgmma(int line) { running_block->warpgroup_step({WarpgroupOperation::fence, line, 0, 0, {}}, nullptr); }
void commit_wgmma(int line) { running_block->warpgroup_step({WarpgroupOperation::commit, line, 0, 0, {}}, nullptr); }
void await_wgmma(unsigned pending, int line) {
  running_block->warpgroup_step({WarpgroupOperation::wait, line, pending, 0, {}}, nullptr);
}
void set_registers(unsigned count, int line) {
  running_block->warpgroup_step({WarpgroupOperation::set_registers, line, count, 0, {}}, nullptr);
}
size_t shared_address(const void* pointer) { return running_block->addresses().shorten(pointer); }

}  // namespace cugen
