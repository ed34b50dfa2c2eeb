// The blocks of one cluster, which take turns on one worker: each runs until all of its threads wait at the cluster's
// barrier, or have ended. Blocks without a cluster are clusters of one.
//
// Shared memory is that of the block whose turn it is. Those of the others wait in copies, where who maps them finds them.
#pragma once

#include <string.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "block.h"

namespace cugen {

// A stretch of shared memory.
struct Stretch {
  char* start;
  size_t bytes;
};

class Cluster;
inline __thread Cluster* running_cluster = nullptr;  // of this worker; null outside kernels

class Cluster {
 public:
  // `shared` need only be known where a cluster has more than one block; no other worker may use it then.
  void run(const Launch& launch, uint64_t number, const std::vector<Stretch>& shared) {
    size_ = launch.kernel->cluster;
    while (blocks_.size() < size_) blocks_.push_back(std::make_unique<Block>());
    copies_.resize(size_);
    order_.resize(size_);
    for (unsigned i = 0; i < size_; ++i) {
      blocks_[i]->begin(launch, number * size_ + i);
      order_[i] = i;
    }
    shared_ = size_ > 1 ? &shared : &kNothing;
    for (unsigned i = 0; i < size_; ++i) keep(i);
    std::minstd_rand random(static_cast<unsigned>(launch.seed * 7 + launch.number * 13 + number + 1));
    running_cluster = this;
    for (unsigned waiting = size_; waiting > 0;) {
      if (launch.shuffled)
        for (unsigned i = size_; i > 1; --i) std::swap(order_[i - 1], order_[random() % i]);
      waiting = 0;
      for (const unsigned rank : order_) {
        rank_ = rank;
        bring_back(rank);
        waiting += blocks_[rank]->resume();
        keep(rank);
      }
      check_meeting(waiting);
    }
    running_cluster = nullptr;
  }

  unsigned rank() const { return rank_; }
  unsigned size() const { return size_; }

  // Where another block's variable is that stands at `address` in each block's own shared memory.
  void* map(void* address, int rank, int line) {
    if (rank < 0 || static_cast<unsigned>(rank) >= size_)
      fail("cluster", line, "a cluster of %u blocks has none of rank %d", size_, rank);
    const unsigned other = static_cast<unsigned>(rank);
    if (!blocks_[other]->has_begun() && other != rank_)
      fail("cluster", line, "the shared memory of block rank %u is mapped, which may not have begun: no barrier of the "
           "cluster since", other);
    if (blocks_[other]->has_ended())
      fail("cluster", line, "the shared memory of block rank %u is mapped, which has ended: no barrier of the cluster "
           "held it", other);
    if (other == rank_) return address;
    for (size_t i = 0; i < shared_->size(); ++i) {
      const size_t offset = static_cast<size_t>(static_cast<char*>(address) - (*shared_)[i].start);
      if (offset < (*shared_)[i].bytes) return copies_[other][i].data() + offset;
    }
    fail("cluster", line, "map_shared_rank is given an address outside shared memory");
  }

 private:
  static inline const std::vector<Stretch> kNothing;

  void keep(unsigned rank) {
    copies_[rank].resize(shared_->size());
    for (size_t i = 0; i < shared_->size(); ++i)
      copies_[rank][i].assign((*shared_)[i].start, (*shared_)[i].start + (*shared_)[i].bytes);
  }

  void bring_back(unsigned rank) {
    for (size_t i = 0; i < shared_->size(); ++i)
      if (!copies_[rank][i].empty()) memcpy((*shared_)[i].start, copies_[rank][i].data(), (*shared_)[i].bytes);
  }

  // All blocks must have come to the same barrier, or to their end.
  void check_meeting(unsigned waiting) const {
    const Block* first = nullptr;
    for (unsigned i = 0; i < size_; ++i) {
      if (blocks_[i]->has_ended()) continue;
      if (waiting < size_)
        fail("divergence", blocks_[i]->line(), "a block waits at the barrier of its cluster in line %d, while another one "
             "has ended", blocks_[i]->line());
      if (first == nullptr) first = blocks_[i].get();
      if (blocks_[i]->line() != first->line())
        fail("divergence", first->line(), "a block waits at the barrier of its cluster in line %d, while another one waits "
             "in line %d", first->line(), blocks_[i]->line());
    }
  }

  unsigned size_ = 0, rank_ = 0;
  const std::vector<Stretch>* shared_ = &kNothing;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<std::vector<std::vector<char>>> copies_;  // by rank and stretch, each by itself so that a sanitizer knows it
  std::vector<unsigned> order_;
};

unsigned cluster_rank() { return running_cluster->rank(); }
unsigned cluster_size() { return running_cluster->size(); }
void* map_shared(void* address, int rank, int line) { return running_cluster->map(address, rank, line); }

}  // namespace cugen
