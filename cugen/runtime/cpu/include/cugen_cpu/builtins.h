// Thread indices, barriers, fences and clocks.
#pragma once

#include <time.h>

extern __thread uint3 threadIdx;
extern __thread uint3 blockIdx;
extern __thread uint3 blockDim;
extern __thread uint3 gridDim;
constexpr int warpSize = 32;

inline void __syncthreads(int line = __builtin_LINE()) { cugen::block_barrier(cugen::Vote::none, 0, line); }
inline int __syncthreads_count(int predicate, int line = __builtin_LINE()) {
  return cugen::block_barrier(cugen::Vote::count, predicate, line);
}
inline int __syncthreads_and(int predicate, int line = __builtin_LINE()) {
  return cugen::block_barrier(cugen::Vote::all, predicate, line);
}
inline int __syncthreads_or(int predicate, int line = __builtin_LINE()) {
  return cugen::block_barrier(cugen::Vote::any, predicate, line);
}
inline void __barrier_sync_count(unsigned id, unsigned count, int line = __builtin_LINE()) {
  cugen::named_barrier(id, count, line);
}

// Weaker than those of other scopes, which the race detector tells by it.
CUGEN_INLINE void __threadfence_block() { __atomic_thread_fence(__ATOMIC_ACQ_REL); }
CUGEN_INLINE void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
CUGEN_INLINE void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

inline long long clock64() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}
inline void __nanosleep(unsigned int, int line = __builtin_LINE()) { cugen::yield_polling_thread(line); }

[[noreturn]] inline void __trap(int line = __builtin_LINE()) { cugen::fail("trap", line, "__trap() was reached"); }
