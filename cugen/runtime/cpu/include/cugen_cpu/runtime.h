// What kernels and runtime know of each other; the runtime is compiled apart, once for all kernels.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <type_traits>
#include <utility>

namespace cugen {

// One fault ends the process: the report names the thread, `line` is of the .cu, or 0.
[[noreturn]] void fail(const char* kind, int line, const char* format, ...) __attribute__((format(printf, 3, 4)));

enum class Vote { none, count, all, any, cluster };

// A barrier of the whole block, or of all blocks of its cluster. Returns the vote over the lanes' predicates.
int block_barrier(Vote vote, int predicate, int line);

// A barrier of some of the block's warps: of `count` threads that come to the one with this number.
void named_barrier(unsigned id, unsigned count, int line);

// The running block's place in its cluster, how many blocks that has, and where a variable of another one's is.
unsigned cluster_rank();
unsigned cluster_size();
void* map_shared(void* address, int rank, int line);

// Between two looks at memory that a thread polls, which another one is to change.
void pause_thread(int line);

// An atomic has changed memory.
void changed();

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
  multiply_tiles,
};

// A collective of the warp's lanes in `mask`. `argument` and `width` are those of a shuffle.
uint64_t warp_collective(Collective kind, unsigned mask, uint64_t value, unsigned argument, unsigned width, int line);

// Asynchronous copies of the calling thread: they arrive when it waits for their group, in the order of their making.
void delay_copy(void* destination, const void* data, size_t bytes);
void commit_copies();
void await_copies(size_t pending);

// The lanes of the calling thread's warp that have not returned.
unsigned live_lanes();

struct Kernel {
  const char* name;
  void (*invoke)(void* const* parameters);
  size_t parameter_count;
  const size_t* parameter_bytes;
  unsigned cluster;  // blocks along x that run at once
};

struct Symbol {
  const char* name;
  void* address;
  size_t bytes;
};

// What the harness says of one .cu. Thread-local arrays have an address per worker, so they are asked for.
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
