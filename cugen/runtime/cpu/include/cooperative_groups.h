// Clusters of blocks, all that kernels here use of cooperative groups.
#pragma once

#include <cugen_cpu.h>

namespace cooperative_groups {

struct cluster_group {
  static void sync(int line = __builtin_LINE()) { cugen::block_barrier(cugen::Vote::cluster, 0, line); }
  // Where blocks take turns, none goes past a barrier before all others have come to it: it may as well arrive late.
  static void barrier_arrive() {}
  static void barrier_wait(int line = __builtin_LINE()) { sync(line); }
  static unsigned block_rank() { return cugen::cluster_rank(); }
  static unsigned num_blocks() { return cugen::cluster_size(); }

  template <class T>
  static T* map_shared_rank(T* address, int rank, int line = __builtin_LINE()) {
    return static_cast<T*>(cugen::map_shared(address, rank, line));
  }
};

inline cluster_group this_cluster() { return {}; }

}  // namespace cooperative_groups
