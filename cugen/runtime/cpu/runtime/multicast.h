// What a block starts in the shared memory of other blocks of its cluster: copies by TMA and arrivals at mbarriers.
#pragma once

#include "async_proxy.h"
#include "cluster.h"

namespace cugen {

inline void multicast(const Box& box, const void* barrier, unsigned blocks, const void* code_address) {
  running_block->check_load(box);
  if (blocks == 0) fail("cluster", box.line, "a multicast to no block of the cluster");
  for (unsigned left = blocks; left != 0; left &= left - 1) {
    const unsigned rank = static_cast<unsigned>(__builtin_ctz(left));
    void* const memory = running_cluster->map(box.start, static_cast<int>(rank), box.line);
    Block& target = running_cluster->block(rank);
    target.check_mbarrier(rank, barrier, box.line);
    target.add_load(box, barrier, memory);
  }
  record_load(box, blocks, code_address);
}

void multicast_box(void* target, const CUtensorMap& map, void* barrier, unsigned blocks, const BoxCoordinates& first,
                   int line) {
  multicast({map, first, static_cast<char*>(target), line}, barrier, blocks, __builtin_return_address(0));
}

void arrive_mbarrier_of(unsigned rank, void* barrier, int line) {
  running_cluster->map(barrier, static_cast<int>(rank), line);  // fails if that block can't be reached
  Block& target = running_cluster->block(rank);
  target.check_mbarrier(rank, barrier, line);
  if (&target == running_block) {
    record_barrier(barrier, false, __builtin_return_address(0));
    target.arrive_mbarrier(barrier, 0, line);
  } else {
    target.add_remote_arrival({barrier, line, threadIdx, blockIdx, sync_clock.release(running_block->thread())});
  }
}

}  // namespace cugen
