// Interface between kernels and the runtime, which is compiled separately, once for all kernels.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <type_traits>
#include <utility>

namespace cugen {

// Reports a fault of the current thread and ends the process. `line` is that of the .cu, or 0.
[[noreturn]] void fail(const char* kind, int line, const char* format, ...) __attribute__((format(printf, 3, 4)));

// Reports an access (`what`) at an address that is no multiple of `alignment`.
[[noreturn]] void fail_misaligned(const char* what, const void* address, size_t alignment, int line);

// Fails for an address (of `what`) in global, constant or local memory.
void require_shared(const char* what, const void* address, int line);

enum class Vote { none, count, all, any, cluster };

// Barrier of the block, or of the cluster. Returns the vote over the threads' predicates.
int block_barrier(Vote vote, int predicate, int line);

// Named barrier of `count` threads (bar.sync id, count).
void named_barrier(unsigned id, unsigned count, int line);

// Rank of the running block in its cluster, the cluster size, and distributed shared memory addresses.
unsigned cluster_rank();
unsigned cluster_size();
void* map_shared(void* address, int rank, int line);

// Yields between two polls of a spin-wait.
void yield_polling_thread(int line);

// Called when an atomic has changed memory.
void count_change();

enum class Collective {
  sync,
  shuffle_index,
  shuffle_up,
  shuffle_down,
  shuffle_xor,
  ballot,
  all,
  any,
  match_any,
  match_all,
  add,
  minimum_signed,
  maximum_signed,
  minimum_unsigned,
  maximum_unsigned,
  bit_and,
  bit_or,
  bit_xor,
  mma,
  load_matrices,
  load_transposed_matrices,
  store_matrices,
  store_transposed_matrices,
};

// Collective of the lanes in `mask`. `argument` and `width` are those of a shuffle, or
// `argument` counts matrices.
uint64_t warp_collective(Collective kind, unsigned mask, uint64_t value, unsigned argument, unsigned width, int line);

// Asynchronous copies of the calling thread: they complete in order when it waits for their group.
void enqueue_copy(void* destination, const void* data, size_t bytes);
void commit_copies();
void await_copies(size_t pending);

// Mask of the lanes of the calling warp that have not returned.
unsigned live_lanes();

struct Kernel {
  const char* name;
  void (*invoke)(void* const* parameters);
  size_t parameter_count;
  const size_t* parameter_bytes;
  unsigned cluster;  // cluster size along x
};

struct Symbol {
  const char* name;
  void* address;
  size_t bytes;
};

// Kernels and variables of one .cu, defined by the harness. Thread-local arrays have an address per worker.
struct Program {
  const Kernel* kernels;
  size_t kernel_count;
  const Symbol* constants;
  size_t constant_count;
  Symbol (*dynamic_shared)(size_t index);
  size_t dynamic_shared_count;
};

extern const Program program;

template <auto function>
struct Invoker;

template <class... Parameters, void (*function)(Parameters...)>
struct Invoker<function> {
  static constexpr size_t bytes[sizeof...(Parameters) + 1] = {sizeof(Parameters)..., 0};

  template <size_t... index>
  static void unpack(void* const* parameters, std::index_sequence<index...>) {
    function(*static_cast<Parameters*>(parameters[index])...);
  }

  static void invoke(void* const* parameters) { unpack(parameters, std::index_sequence_for<Parameters...>{}); }
};

template <auto function>
constexpr Kernel kernel(const char* name, unsigned cluster = 1) {
  using Call = Invoker<function>;
  return {name, Call::invoke, sizeof(Call::bytes) / sizeof(size_t) - 1, Call::bytes, cluster};
}

}  // namespace cugen
