// The part of cooperative groups that generated kernels use: thread block clusters.
#pragma once

#include "cugen_cpu.h"  // in quotes: between <> GCC would read a precompiled one, which comes first or not at all

namespace cooperative_groups {

struct cluster_group {
  static void sync(int line = __builtin_LINE()) { cugen::block_barrier(cugen::Vote::cluster, 0, line); }
  // Blocks run alternately, so that arrival may be deferred to the wait.
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
