// The wgmma instructions of one warpgroup. Threads log what they execute, and must log the same; they meet at a wait,
// where the multiplications that it awaits are computed: as late as a kernel may rely on.
#pragma once

#include <algorithm>
#include <deque>

#include "operand_reads.h"
#include "poison.h"
#include "wgmma.h"

namespace cugen {

enum class WarpgroupOperation : uint8_t { fence, multiply, commit, wait, set_registers };

// `accumulators` is the number of a thread's Accumulators; `pending` of groups at a wait, or of registers.
struct WarpgroupStep {
  WarpgroupOperation operation;
  int line;
  unsigned pending;
  size_t accumulators;
  Wgmma wgmma;

  bool is_same(const WarpgroupStep& other) const {
    const Wgmma &x = wgmma, &y = other.wgmma;
    return operation == other.operation && line == other.line && pending == other.pending &&
           accumulators == other.accumulators && x.n == y.n && x.a_type == y.a_type && x.b_type == y.b_type &&
           x.a_is_mn_major == y.a_is_mn_major && x.b_is_mn_major == y.b_is_mn_major && x.a == y.a && x.b == y.b &&
           x.accumulates == y.accumulates;
  }
};

struct Multiplication {
  WarpgroupStep step;
  SharedMatrix a, b;
};

class Warpgroup {
 public:
  void clear() {
    steps_.clear();
    in_flight_.clear();
    groups_.clear();
    reads_.clear();
    uncommitted_ = arrived_ = 0;
    has_ended_ = false;
    for (Thread& thread : threads_) thread = {};
  }

  // Logs a step of a thread. True for the first thread that executes it.
  bool advance(unsigned number, const WarpgroupStep& step) {
    Thread& thread = threads_[number];
    const size_t position = thread.position++;
    if (position == steps_.size()) {
      if (has_ended_)
        fail("divergence", step.line, "thread %u of a warpgroup executes line %d, and thread %u has ended", number, step.line,
             ended_);
      steps_.push_back({step, number});
      return true;
    }
    const Step& first = steps_[position];
    if (!first.step.is_same(step))
      fail("divergence", first.step.line,
           first.step.line == step.line ? "thread %u of a warpgroup executes line %d with operands that differ from thread %u's"
                                        : "thread %u of a warpgroup executes line %d, while thread %u executes line %d",
           first.thread, first.step.line, number, step.line);
    return false;
  }

  void fence(unsigned number) { threads_[number].is_fenced = true; }

  // Takes the values out of the registers of a thread, which hold no number while a multiplication is in flight.
  size_t take_accumulators(unsigned number, const Wgmma& wgmma, int line) {
    Thread& thread = threads_[number];
    char* const upper = static_cast<char*>(wgmma.upper);
    auto match = std::find_if(thread.accumulators.begin(), thread.accumulators.end(),
                              [=](const Accumulators& known) { return known.upper == upper; });
    if (match == thread.accumulators.end()) match = thread.accumulators.insert(match, {upper, nullptr, 0, {}, 0});
    const size_t bytes = wgmma.n;  // n / 4 words
    if (match->in_flight++ == 0) {
      std::vector<char> values(upper, upper + bytes);
      char* const lower = static_cast<char*>(wgmma.lower);
      values.insert(values.end(), lower, lower + bytes);
      if (!thread.is_fenced && !(wgmma.accumulates && match->values == values))
        fail("undefined", line, "wgmma with no wgmma.fence since the thread accessed its accumulators");
      *match = {upper, lower, bytes, values, 1};
      memset(upper, poison(wgmma), bytes);
      memset(lower, poison(wgmma), bytes);
    } else if (match->bytes != bytes || match->lower != wgmma.lower) {
      fail("undefined", line, "wgmma with accumulators of a multiplication of another shape that is in flight");
    }
    return static_cast<size_t>(match - thread.accumulators.begin());
  }

  void add(const Multiplication& multiplication) {
    in_flight_.push_back(multiplication);
    ++uncommitted_;
  }

  void commit() {
    groups_.push_back(uncommitted_);
    uncommitted_ = 0;
  }

  // Whether all threads have arrived at a wait.
  bool arrive() { return ++arrived_ == kWarpgroup; }

  // When they have. Computes all groups but the last `pending`.
  void finish_wait(unsigned pending) {
    arrived_ = 0;
    steps_.clear();
    for (Thread& thread : threads_) thread.position = 0;
    for (; groups_.size() > pending; groups_.pop_front())
      for (size_t i = 0; i < groups_.front(); ++i) {
        const Multiplication& multiplication = in_flight_.front();
        finish(multiplication);
        reads_.add(multiplication.a, multiplication.b, multiplication.step.line);
        in_flight_.pop_front();
      }
  }

  // Line of a multiplication in flight with operands in these bytes, or 0.
  int line_of(const MemoryRange& range) const {
    for (const Multiplication& multiplication : in_flight_)
      for (const SharedMatrix* matrix : {&multiplication.a, &multiplication.b}) {
        bool is_inside = false;
        matrix->for_each_chunk([&](const char* chunk) { is_inside |= range.contains(chunk); });
        if (is_inside) return multiplication.step.line;
      }
    return 0;
  }

  const OperandReads& reads() const { return reads_; }

  // End of a thread. Fails if a multiplication is in flight, or others have executed more.
  void finish(unsigned number) {
    if (!in_flight_.empty())
      fail("undefined", in_flight_.front().step.line, "a thread ends before the wgmma in line %d: no wait for it%s",
           in_flight_.front().step.line, uncommitted_ == in_flight_.size() ? ", which is in no group that was committed" : "");
    if (const size_t position = threads_[number].position; position < steps_.size())
      fail("divergence", steps_[position].step.line, "thread %u of a warpgroup ends before line %d, which thread %u executes",
           number, steps_[position].step.line, steps_[position].thread);
    has_ended_ = true;
    ended_ = number;
  }

 private:
  struct Step {
    WarpgroupStep step;
    unsigned thread;  // the first one that executed it
  };

  struct Thread {
    size_t position = 0;     // in the steps since the last wait
    bool is_fenced = false;  // since accumulators were last returned
    std::vector<Accumulators> accumulators;
  };

  // NaN, or a large integer.
  static int poison(const Wgmma& wgmma) {
    return wgmma.a_type == Element::s8 || wgmma.a_type == Element::u8 ? kLargePoison : kPoison;
  }

  void finish(const Multiplication& multiplication) {
    const Wgmma& wgmma = multiplication.step.wgmma;
    Accumulators* accumulators[kWarpgroup];
    for (unsigned i = 0; i < kWarpgroup; ++i)
      accumulators[i] = &threads_[i].accumulators[multiplication.step.accumulators];
    multiply(wgmma, multiplication.a, multiplication.b, accumulators);
    for (unsigned i = 0; i < kWarpgroup; ++i)
      if (--accumulators[i]->in_flight == 0) {
        give_back(*accumulators[i], poison(wgmma), multiplication.step.line);
        threads_[i].is_fenced = false;
      }
  }

  static void give_back(const Accumulators& accumulators, int poison, int line) {
    char* const halves[] = {accumulators.upper, accumulators.lower};
    for (unsigned i = 0; i < 2; ++i) {
      const auto is_poison = [=](char c) { return c == static_cast<char>(poison); };
      if (!std::all_of(halves[i], halves[i] + accumulators.bytes, is_poison))
        fail("undefined", line, "accumulators of the wgmma in line %d were written before the wait for it", line);
      memcpy(halves[i], accumulators.values.data() + i * accumulators.bytes, accumulators.bytes);
    }
  }

  std::vector<Step> steps_;  // since the last wait
  std::deque<Multiplication> in_flight_;
  OperandReads reads_;         // of multiplications that have been waited for
  std::deque<size_t> groups_;  // multiplications per group
  size_t uncommitted_ = 0;
  unsigned arrived_ = 0;
  bool has_ended_ = false;  // any thread, of which `ended_` is one
  unsigned ended_ = 0;
  Thread threads_[kWarpgroup];
};

}  // namespace cugen
