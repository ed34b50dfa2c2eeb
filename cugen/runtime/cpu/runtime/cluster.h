// Cluster scheduler: the blocks of one cluster run alternately on one worker, each until its threads have returned, or
// wait for other blocks, at the cluster barrier or at mbarriers. Blocks without a cluster are clusters of one.
//
// Shared memory is that of the running block. It is saved and restored at each switch; map_shared_rank maps the copies.
#pragma once

#include <string.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "block.h"

namespace cugen {

class Cluster;
inline __thread Cluster* running_cluster = nullptr;  // of this worker; null outside kernels

class Cluster {
 public:
  // `shared` is needed for clusters of more than one block, which require a single worker.
  void run(const Launch& launch, uint64_t number, const std::vector<MemoryRange>& shared) {
    size_ = launch.kernel->cluster;
    while (blocks_.size() < size_) blocks_.push_back(std::make_unique<Block>());
    copies_.resize(size_);
    order_.resize(size_);
    for (unsigned i = 0; i < size_; ++i) {
      blocks_[i]->begin(launch, number * size_ + i, shared);
      order_[i] = i;
    }
    shared_ = size_ > 1 ? &shared : &kNothing;
    for (unsigned i = 0; i < size_; ++i) save_shared(i);
    std::minstd_rand random(static_cast<unsigned>(launch.seed * 7 + launch.number * 13 + number + 1));
    running_cluster = this;
    do {
      sync_clock.cluster_barrier();
      while (count(Pause::runnable) > 0) {
        if (launch.shuffled)
          for (unsigned i = size_; i > 1; --i) std::swap(order_[i - 1], order_[random() % i]);
        for (const unsigned rank : order_) {
          if (blocks_[rank]->pause() != Pause::runnable) continue;
          switch_to(rank);
          blocks_[rank]->resume();
          save_shared(rank);
        }
      }
      if (count(Pause::at_mbarrier) > 0) report_hang();
      check_barrier();
      for (unsigned i = 0; i < size_; ++i) blocks_[i]->pass_cluster_barrier();
    } while (count(Pause::ended) < size_);
    running_cluster = nullptr;
  }

  unsigned rank() const { return rank_; }
  unsigned size() const { return size_; }

  Block& block(unsigned rank) { return *blocks_[rank]; }

  // Address of the variable at `address` in the shared memory of block `rank`.
  void* map(void* address, int rank, int line) {
    if (rank < 0 || static_cast<unsigned>(rank) >= size_)
      fail("cluster", line, "rank %d is outside a cluster of %u blocks", rank, size_);
    const unsigned target = static_cast<unsigned>(rank);
    if (!blocks_[target]->has_begun() && target != rank_)
      fail("cluster", line, "access to the shared memory of block rank %u, which may not have begun: no cluster barrier "
           "before it", target);
    if (blocks_[target]->has_ended())
      fail("cluster", line, "access to the shared memory of block rank %u, which has ended: no cluster barrier after it",
           target);
    if (target == rank_) return address;
    for (size_t i = 0; i < shared_->size(); ++i) {
      const size_t offset = static_cast<size_t>(static_cast<char*>(address) - (*shared_)[i].start);
      if (offset < (*shared_)[i].bytes) return copies_[target][i].data() + offset;
    }
    fail("cluster", line, "map_shared_rank of an address outside shared memory");
  }

  // A block of the cluster, and the address of a variable in its shared memory while it runs.
  struct Variable {
    unsigned rank;
    const char* address;  // null outside of shared memory
  };

  // Of an address that map() returned.
  Variable find(const void* mapped) const {
    const char* const address = static_cast<const char*>(mapped);
    for (unsigned rank = 0; rank < size_; ++rank)
      for (size_t i = 0; i < shared_->size(); ++i) {
        const std::vector<char>& copy = copies_[rank][i];
        if (address >= copy.data() && address < copy.data() + copy.size())
          return {rank, (*shared_)[i].start + (address - copy.data())};
      }
    return {rank_, nullptr};
  }

 private:
  static inline const std::vector<MemoryRange> kNothing;

  void save_shared(unsigned rank) {
    copies_[rank].resize(shared_->size());
    for (size_t i = 0; i < shared_->size(); ++i)
      copies_[rank][i].assign((*shared_)[i].start, (*shared_)[i].start + (*shared_)[i].bytes);
  }

  void restore_shared(unsigned rank) {
    for (size_t i = 0; i < shared_->size(); ++i)
      if (!copies_[rank][i].empty()) memcpy((*shared_)[i].start, copies_[rank][i].data(), (*shared_)[i].bytes);
  }

  void switch_to(unsigned rank) {
    rank_ = rank;
    sync_clock.begin_rank(rank);
    restore_shared(rank);
  }

  unsigned count(Pause pause) const {
    return static_cast<unsigned>(std::count_if(blocks_.begin(), blocks_.begin() + size_,
                                               [=](const auto& block) { return block->pause() == pause; }));
  }

  // Reports a block with threads at an mbarrier, and what the others wait for, once no block can run.
  [[noreturn]] void report_hang() {
    unsigned waiting = 0;
    for (unsigned rank = 1; rank < size_; ++rank)
      if (blocks_[rank]->progress() > blocks_[waiting]->progress()) waiting = rank;
    std::string others;
    for (unsigned rank = 0; rank < size_; ++rank) {
      if (rank == waiting) continue;
      const Block& block = *blocks_[rank];
      others += "; block rank " + std::to_string(rank);
      if (block.pause() == Pause::ended) others += " has ended";
      if (block.pause() == Pause::at_mbarrier) others += " waits in line " + std::to_string(block.mbarrier_line());
      if (block.pause() == Pause::at_cluster_barrier)
        others += " waits at the cluster barrier in line " + std::to_string(block.line());
    }
    switch_to(waiting);
    blocks_[waiting]->report_hang(others);
  }

  // All blocks must wait at the same barrier, or have ended.
  void check_barrier() const {
    const Block* first = nullptr;
    for (unsigned i = 0; i < size_; ++i) {
      if (blocks_[i]->has_ended()) continue;
      if (count(Pause::ended) > 0)
        fail("divergence", blocks_[i]->line(), "a block waits at the cluster barrier in line %d, while another block has "
             "ended", blocks_[i]->line());
      if (first == nullptr) first = blocks_[i].get();
      if (blocks_[i]->line() != first->line())
        fail("divergence", first->line(), "a block waits at the cluster barrier in line %d, while another block waits in "
             "line %d", first->line(), blocks_[i]->line());
    }
  }

  unsigned size_ = 0, rank_ = 0;
  const std::vector<MemoryRange>* shared_ = &kNothing;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<std::vector<std::vector<char>>> copies_;  // by rank and range; separate allocations, for the sanitizer
  std::vector<unsigned> order_;
};

unsigned cluster_rank() { return running_cluster->rank(); }
unsigned cluster_size() { return running_cluster->size(); }
void* map_shared(void* address, int rank, int line) { return running_cluster->map(address, rank, line); }

}  // namespace cugen
