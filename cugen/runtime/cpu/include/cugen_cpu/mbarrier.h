// Barriers in shared memory (mbarrier), in place of the inline PTX of a .cu (runtime/mbarriers.h).
#pragma once

namespace cugen {

void init_mbarrier(void* barrier, unsigned arrivals, int line);

// Arrives, after `bytes` were added to those that the phase expects.
void arrive_mbarrier(void* barrier, unsigned bytes, int line);

// Arrives at the barrier at the same offset in the shared memory of block `rank` of the cluster.
void arrive_mbarrier_of(unsigned rank, void* barrier, int line);

// Returns when the phase of this parity has ended.
void await_mbarrier(void* barrier, unsigned parity, int line);

}  // namespace cugen

// The first one.
#define CUGEN_ELECT_ONE
CUGEN_INLINE bool elect_one() { return threadIdx.x % 32 == 0; }
#define CUGEN_MBARRIER_INIT
CUGEN_INLINE void mbarrier_init(unsigned long long* barrier, unsigned arrivals, int line = __builtin_LINE()) {
  cugen::init_mbarrier(barrier, arrivals, line);
}
// Nothing sees a barrier before it is initialised.
#define CUGEN_MBARRIER_INIT_FENCE
CUGEN_INLINE void mbarrier_init_fence() {}
#define CUGEN_MBARRIER_ARRIVE
CUGEN_INLINE void mbarrier_arrive(unsigned long long* barrier, int line = __builtin_LINE()) {
  cugen::arrive_mbarrier(barrier, 0, line);
}
#define CUGEN_MBARRIER_ARRIVE_EXPECT_TX
CUGEN_INLINE void mbarrier_arrive_expect_tx(unsigned long long* barrier, unsigned bytes, int line = __builtin_LINE()) {
  cugen::arrive_mbarrier(barrier, bytes, line);
}
#define CUGEN_MBARRIER_ARRIVE_CLUSTER
CUGEN_INLINE void mbarrier_arrive_cluster(unsigned long long* barrier, unsigned rank, int line = __builtin_LINE()) {
  cugen::arrive_mbarrier_of(rank, barrier, line);
}
#define CUGEN_MBARRIER_WAIT
CUGEN_INLINE void mbarrier_wait(unsigned long long* barrier, unsigned parity, int line = __builtin_LINE()) {
  cugen::await_mbarrier(barrier, parity, line);
}
