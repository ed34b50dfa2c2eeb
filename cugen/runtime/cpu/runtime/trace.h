// The hooks that -fsanitize=thread calls at each access, which replace the runtime of ThreadSanitizer: they record a
// trace, or detect data races and reads of shared memory that holds no value.
#pragma once

#if defined(CUGEN_TRACE)

#include <stdio.h>

#include <algorithm>
#include <string>
#include <vector>

#include "async_proxy.h"
#include "block.h"
#include "cluster.h"
#include "proxy_fences.h"

namespace cugen {

enum class Access : uint8_t { read, write, atomic };

// Layout of the file; cugen/runtime/cpu/trace.py has the same.
struct Record {
  uint64_t counter;  // address of the code
  uint64_t offset;   // bytes into the array
  uint32_t launch, block, thread, interval;
  uint16_t array;
  uint8_t kind, bytes;
  uint32_t unused;
};
static_assert(sizeof(Record) == 40);

// The same access by lanes of one warp: all of them are kept, since barriers may order any subset with the next access.
struct PastAccess {
  uint64_t counter;
  uint32_t step;
  uint32_t lanes;
  uint8_t warp;
  Access kind;

  bool is_same_access(const PastAccess& past) const {
    return warp == past.warp && kind == past.kind && step == past.step && counter == past.counter;
  }
};

// Shadow cell of one byte of shared memory: its accesses in the interval `epoch`.
struct ShadowCell {
  uint32_t epoch = 0;
  std::vector<PastAccess> writes, reads;  // the last one of each thread; entries without lanes are free
  const void* copy = nullptr;             // code address of an asynchronous copy that has not been awaited
  uint32_t copying_block = 0;
  const void* store = nullptr;  // code address of a TMA store that has not read the byte
  ProxyWrite write;
};

struct TracedArray {
  std::string name;
  char* start;
  size_t bytes;
  std::vector<std::vector<ShadowCell>> shadows;  // by the block's rank in its cluster; shared arrays only
  ValueFlags has_value;                          // shared arrays only
  GlobalWrite* writes = nullptr;                 // of each byte; global arrays that kernels write

  bool is_shared() const { return !shadows.empty(); }
  std::vector<ShadowCell>& cells() { return shadows[sync_clock.rank]; }
};

inline std::vector<TracedArray> traced_arrays;
inline FILE* trace_file = nullptr;

inline void trace_array(const std::string& name, void* start, size_t bytes, bool shared) {
  dprintf(report, "array %s %s\n", shared ? "shared" : "global", name.c_str());
  traced_arrays.push_back({name, static_cast<char*>(start), bytes, {}, {}});
  if (shared) traced_arrays.back().shadows.emplace_back(bytes);
}

// Remembers the last write of each byte. Pages of untouched memory cost nothing.
inline void track_writes(TracedArray& array) {
  void* const writes = mmap(nullptr, (array.bytes + 1) * sizeof(GlobalWrite), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (writes == MAP_FAILED) fail("memory", 0, "no memory to watch the writes to %s", array.name.c_str());
  array.writes = static_cast<GlobalWrite*>(writes);
}

// Lanes of `past` that no barrier orders before the lane of `access`.
inline unsigned unordered_lanes(const PastAccess& past, const PastAccess& access) {
  if (sync_clock.warp_sync[past.warp][access.warp] > past.step) return 0;
  const unsigned lane = static_cast<unsigned>(__builtin_ctz(access.lanes));
  const auto& steps = sync_clock.lane_sync[access.warp][lane];
  unsigned unordered = past.warp == access.warp ? past.lanes & ~access.lanes : past.lanes;
  for (unsigned lanes = unordered; lanes != 0; lanes &= lanes - 1) {
    const unsigned past_lane = static_cast<unsigned>(__builtin_ctz(lanes));
    if ((past.warp == access.warp && steps[past_lane] > past.step) ||
        sync_clock.is_ordered(32u * past.warp + past_lane, past.step, 32u * access.warp + lane))
      unordered &= ~(lanes & -lanes);
  }
  return unordered;
}

// A later access of a lane takes the place of an earlier one, but an atomic not that of a write: atomics of other lanes
// conflict with that one only.
inline void record_access(std::vector<PastAccess>& list, const PastAccess& access) {
  for (PastAccess& past : list)
    if (past.warp == access.warp && (past.kind == Access::atomic || access.kind != Access::atomic))
      past.lanes &= ~access.lanes;
  const auto entry =
      std::find_if(list.begin(), list.end(), [&](const PastAccess& past) { return past.lanes == 0 || past.is_same_access(access); });
  if (entry == list.end()) {
    list.push_back(access);
  } else {
    const unsigned lanes = entry->lanes;
    *entry = access;
    entry->lanes |= lanes;
  }
}

// Until a thread waits for its copy, no thread of the block may access the bytes, or write those of a store.
inline void check_copy(const TracedArray& array, const ShadowCell& cell, size_t offset, const PastAccess& access) {
  const bool is_store = cell.store != nullptr && access.kind != Access::read;
  if ((cell.copy == nullptr && !is_store) || cell.copying_block != sync_clock.block) return;
  fail_from("race", reinterpret_cast<const void*>(access.counter),
            "%s of byte %zu of %s, before the wait for the asynchronous copy %s it at @%zx@",
            access.kind == Access::read ? "read" : "write", offset, array.name.c_str(), is_store ? "from" : "to",
            reinterpret_cast<size_t>(is_store ? cell.store : cell.copy));
}

inline void check_race(const TracedArray& array, ShadowCell& cell, size_t offset, const PastAccess& access) {
  if (cell.epoch != sync_clock.epoch) {
    cell.epoch = sync_clock.epoch;
    cell.writes.clear();
    cell.reads.clear();
  }
  const auto conflict = [&](const std::vector<PastAccess>& list, const char* what) {
    for (const PastAccess& past : list) {
      if (past.kind == Access::atomic && access.kind == Access::atomic) continue;
      if (const unsigned lanes = unordered_lanes(past, access))
        fail_from("race", reinterpret_cast<const void*>(access.counter),
                  "%s of byte %zu of %s, with no barrier since a %s by thread %u at @%zx@",
                  access.kind == Access::read ? "read" : "write", offset, array.name.c_str(), what,
                  past.warp * 32u + static_cast<unsigned>(__builtin_ctz(lanes)), static_cast<size_t>(past.counter));
    }
  };
  conflict(cell.writes, "write");
  if (access.kind != Access::read) conflict(cell.reads, "read");
  record_access(access.kind == Access::read ? cell.reads : cell.writes, access);
}

// Of a cluster of `size` blocks that begins: its shared memory holds no values.
inline void forget_values(unsigned size) {
  proxy_fences.begin_cluster(size);
  for (TracedArray& array : traced_arrays) {
    if (!array.is_shared()) continue;
    array.has_value.assign(size, std::vector<char>(array.bytes));
    array.shadows.resize(std::max<size_t>(size, array.shadows.size()), std::vector<ShadowCell>(array.bytes));
  }
}

// An atomic reads and writes.
inline void check_values(TracedArray& array, size_t offset, size_t bytes, unsigned rank, Access kind, uint64_t counter) {
  std::vector<char>& has_value = array.has_value[rank];
  char* const first = has_value.data() + offset;
  const size_t count = std::min(bytes, has_value.size() - offset);
  if (kind != Access::write)
    if (const void* const missing = memchr(first, 0, count))
      shared_values.add_read(array.name, offset + static_cast<size_t>(static_cast<const char*>(missing) - first), rank, counter);
  if (kind != Access::read) memset(first, 1, count);
}

inline std::vector<TracedArray>::iterator find_array(const void* pointer) {
  const char* const address = static_cast<const char*>(pointer);
  return std::find_if(traced_arrays.begin(), traced_arrays.end(),
                      [&](const TracedArray& a) { return address >= a.start && address < a.start + a.bytes; });
}

inline const char* const kCodeOrigin = reinterpret_cast<const char*>(&trace_array);

// An access to what another thread wrote without any order.
inline DeferredFault unordered_access(const TracedArray& array, size_t offset, const GlobalWrite& write, Access kind,
                                      bool is_strong, uint64_t counter) {
  const std::string what = std::string(is_strong ? "atomic or volatile " : "") + (kind == Access::write ? "write" : "read");
  const void* const code = reinterpret_cast<const void*>(counter);
  const size_t past_code = reinterpret_cast<size_t>(kCodeOrigin + write.counter);
  DeferredFault race;
  if (memory_order.is_own(write))
    race.set("race", code, "%s of byte %zu of %s, with no barrier since a write by thread %u at @%zx@", what.c_str(), offset,
             array.name.c_str(), write.thread, past_code);
  else
    race.set("race", code,
             "%s of byte %zu of %s, which thread %u of block %u of the launch wrote at @%zx@: no fence and flag of the "
             "writer, then flag and fence of the %s, order them",
             what.c_str(), offset, array.name.c_str(), write.thread, memory_order.block_of(write), past_code,
             kind == Access::write ? "second writer" : "reader");
  return race;
}

// An access to global memory, which must know of the writes by other threads. `is_strong` are atomics and volatile
// accesses, which may meet.
inline void check_order(const TracedArray& array, size_t offset, size_t bytes, Access kind, bool is_strong,
                        uint64_t counter, unsigned thread) {
  const char* const address = array.start + offset;
  if (is_strong && kind == Access::read) memory_order.read_location(thread, address);
  if (is_strong && kind != Access::read) memory_order.write_location(thread, address, kind == Access::atomic);
  const GlobalWrite now =
      memory_order.write_by(thread, static_cast<int32_t>(reinterpret_cast<const char*>(counter) - kCodeOrigin), is_strong);
  for (size_t i = offset; i < std::min(offset + bytes, array.bytes); ++i) {
    GlobalWrite& write = array.writes[i];
    if (!(is_strong && write.is_atomic) && !memory_order.is_ordered(thread, write)) {
      const DeferredFault race = unordered_access(array, i, write, kind, is_strong, counter);
      if (kind != Access::write) race.report();
      repeated_writes.add(array.start + i, race);
    }
    if (kind != Access::read) write = now;
  }
}

// An access to the shared memory of another block of the cluster.
inline void access_other_block(const void* pointer, size_t bytes, Access kind, uint64_t counter) {
  const Cluster::Variable variable = running_cluster->find(pointer);
  const auto array = find_array(variable.address);
  if (array == traced_arrays.end()) return;
  check_values(*array, static_cast<size_t>(variable.address - array->start), bytes, variable.rank, kind, counter);
}

inline void access(const void* pointer, size_t bytes, Access kind, const void* return_address, bool is_strong = false) {
  if (running_block == nullptr) return;
  if (kind != Access::read) repeated_writes.check();
  const char* const address = static_cast<const char*>(pointer);
  const uint64_t counter = reinterpret_cast<uint64_t>(return_address) - 1;
  const auto array = find_array(address);
  if (array == traced_arrays.end()) {
    if (trace_file == nullptr) access_other_block(address, bytes, kind, counter);
    return;
  }
  const size_t offset = static_cast<size_t>(address - array->start);
  const unsigned thread = running_block->thread();
  if (trace_file != nullptr) {
    const Record record = {counter, offset, sync_clock.launch, sync_clock.block, thread, sync_clock.interval,
                           static_cast<uint16_t>(array - traced_arrays.begin()), static_cast<uint8_t>(kind),
                           static_cast<uint8_t>(bytes), 0};
    fwrite(&record, sizeof record, 1, trace_file);
  } else if (array->writes != nullptr) {
    check_order(*array, offset, bytes, kind, is_strong || kind == Access::atomic, counter, thread);
  } else if (array->is_shared()) {
    std::vector<ShadowCell>& cells = array->cells();
    const PastAccess now = {counter, sync_clock.step, 1u << thread % 32, static_cast<uint8_t>(thread / 32), kind};
    for (size_t i = offset; i < std::min(offset + bytes, cells.size()); ++i) {
      check_race(*array, cells[i], i, now);
      check_copy(*array, cells[i], i, now);
      if (kind != Access::read) cells[i].write = proxy_fences.write_by(thread);
    }
    check_values(*array, offset, bytes, sync_clock.rank, kind, counter);
  }
}

// Of the block `rank` of the cluster. The bytes hold no value until the copy has completed.
inline void set_copy(void* destination, size_t bytes, const void* copy, unsigned rank) {
  const auto array = find_array(destination);
  if (array == traced_arrays.end() || !array->is_shared()) return;
  std::vector<ShadowCell>& cells = array->shadows[rank];
  const size_t offset = static_cast<size_t>(static_cast<char*>(destination) - array->start);
  for (size_t i = offset; i < std::min(offset + bytes, cells.size()); ++i) {
    cells[i].copy = copy, cells[i].copying_block = sync_clock.block - sync_clock.rank + rank;
    array->has_value[rank][i] = 0;
  }
}

// Calls `action(array, i)` for each byte of a box in shared memory.
template <class Action>
void for_each_byte(const Box& box, Action action) {
  const auto array = find_array(box.start);
  if (trace_file != nullptr || array == traced_arrays.end() || !array->is_shared()) return;
  const size_t offset = static_cast<size_t>(box.start - array->start);
  for (size_t i = offset; i < std::min(offset + box.bytes(), array->bytes); ++i) action(*array, i);
}

// Of the elements of a box that are inside the tensor.
inline void access_global(const Box& box, Access kind, const void* code_address) {
  if (trace_file != nullptr) return;
  for_each_row(box, [&](const BoxRow& row, char*) {
    if (row.address != nullptr) access(row.address, row.count * box.map.element_bytes, kind, code_address);
  });
}

// With which its reads of global memory are checked.
void record_load(const Box& box, unsigned blocks, const void* code_address) {
  if (trace_file != nullptr) return;
  for (unsigned left = blocks; left != 0; left &= left - 1)
    set_copy(box.start, box.bytes(), static_cast<const char*>(code_address) - 1, static_cast<unsigned>(__builtin_ctz(left)));
  access_global(box, Access::read, code_address);
}

void record_arrival(const Box& box) {
  for_each_byte(box, [](TracedArray& array, size_t i) {
    array.cells()[i].copy = nullptr;
    array.cells()[i].write = {};
    array.has_value[sync_clock.rank][i] = 1;
  });
}

// Issue of a store at `code_address`, with which its writes to global memory are checked, or the end of its reads, where
// that is null.
void record_store(const Box& box, const void* code_address) {
  const void* const store = code_address == nullptr ? nullptr : static_cast<const char*>(code_address) - 1;
  for_each_byte(box, [=](TracedArray& array, size_t i) {
    array.cells()[i].store = store;
    array.cells()[i].copying_block = sync_clock.block;
  });
  if (store != nullptr) access_global(box, Access::write, code_address);
}

void record_async_read(const void* address, size_t bytes, const void* code_address, int line) {
  const auto array = find_array(address);
  if (trace_file != nullptr || array == traced_arrays.end() || !array->is_shared()) return;
  access(address, bytes, Access::read, code_address);
  const size_t offset = static_cast<size_t>(static_cast<const char*>(address) - array->start);
  for (size_t i = offset; i < std::min(offset + bytes, array->bytes); ++i)
    if (const ProxyWrite& write = array->cells()[i].write; !proxy_fences.is_visible(write, running_block->thread()))
      fail("race", line, "asynchronous read of byte %zu of %s with no fence.proxy.async since thread %u wrote it", i,
           array->name.c_str(), unsigned{write.thread});
}

void record_proxy_fence() { proxy_fences.fence(running_block->thread()); }

void record_barrier(void* barrier, bool is_init, const void* code_address) {
  if (trace_file == nullptr) access(barrier, 8, is_init ? Access::write : Access::atomic, code_address);
}

void record_issue(void* destination, size_t bytes, const void* code_address) {
  if (trace_file == nullptr) set_copy(destination, bytes, static_cast<const char*>(code_address) - 1, sync_clock.rank);
}

// Traces have the write of an asynchronous copy where it is issued; races are checked at issue and completion.
void record_completion(void* destination, size_t bytes, const void* code_address) {
  if (trace_file != nullptr) return;
  set_copy(destination, bytes, nullptr, sync_clock.rank);
  access(destination, bytes, Access::write, code_address);
}

}  // namespace cugen

#define CUGEN_HOOK(name, bytes, kind) \
  extern "C" void name(void* address) { cugen::access(address, bytes, cugen::Access::kind, __builtin_return_address(0)); }
#define CUGEN_HOOKS(bytes)                             \
  CUGEN_HOOK(__tsan_read##bytes, bytes, read)          \
  CUGEN_HOOK(__tsan_write##bytes, bytes, write)        \
  CUGEN_HOOK(__tsan_unaligned_read##bytes, bytes, read) \
  CUGEN_HOOK(__tsan_unaligned_write##bytes, bytes, write)
CUGEN_HOOKS(1)
CUGEN_HOOKS(2)
CUGEN_HOOKS(4)
CUGEN_HOOKS(8)
CUGEN_HOOKS(16)

#define CUGEN_RANGE_HOOK(name, kind)                                                              \
  extern "C" void name(void* address, size_t bytes) {                                             \
    cugen::access(address, bytes, cugen::Access::kind, __builtin_return_address(0));              \
  }
CUGEN_RANGE_HOOK(__tsan_read_range, read)
CUGEN_RANGE_HOOK(__tsan_write_range, write)

// With --param=tsan-distinguish-volatile=1.
#define CUGEN_VOLATILE_HOOK(name, bytes, kind)                                                              \
  extern "C" void name(void* address) {                                                                     \
    cugen::access(address, bytes, cugen::Access::kind, __builtin_return_address(0), true);                  \
  }
#define CUGEN_VOLATILE_HOOKS(bytes)                                       \
  CUGEN_VOLATILE_HOOK(__tsan_volatile_read##bytes, bytes, read)           \
  CUGEN_VOLATILE_HOOK(__tsan_volatile_write##bytes, bytes, write)         \
  CUGEN_VOLATILE_HOOK(__tsan_unaligned_volatile_read##bytes, bytes, read) \
  CUGEN_VOLATILE_HOOK(__tsan_unaligned_volatile_write##bytes, bytes, write)
CUGEN_VOLATILE_HOOKS(1)
CUGEN_VOLATILE_HOOKS(2)
CUGEN_VOLATILE_HOOKS(4)
CUGEN_VOLATILE_HOOKS(8)
CUGEN_VOLATILE_HOOKS(16)

// An atomic is one access, although it is implemented by a relaxed load and compare-exchanges. Other loads are volatile.
#define CUGEN_ATOMIC_HOOKS(bits, type)                                                                              \
  extern "C" type __tsan_atomic##bits##_load(const type* address, int order) {                                      \
    if (order != __ATOMIC_RELAXED)                                                                                  \
      cugen::access(address, sizeof(type), cugen::Access::read, __builtin_return_address(0), true);                 \
    return *address;                                                                                                \
  }                                                                                                                 \
  extern "C" int __tsan_atomic##bits##_compare_exchange_strong(type* address, type* expected, type desired, int, int) { \
    cugen::access(address, sizeof(type), cugen::Access::atomic, __builtin_return_address(0));                       \
    *address = desired;                                                                                             \
    (void)expected;                                                                                                 \
    return 1;                                                                                                       \
  }
CUGEN_ATOMIC_HOOKS(8, uint8_t)
CUGEN_ATOMIC_HOOKS(16, uint16_t)
CUGEN_ATOMIC_HOOKS(32, uint32_t)
CUGEN_ATOMIC_HOOKS(64, uint64_t)

extern "C" void __tsan_init() {}
extern "C" void __tsan_func_entry(void*) {}
extern "C" void __tsan_func_exit() {}
extern "C" void __tsan_atomic_thread_fence(int order) {
  if (order == __ATOMIC_SEQ_CST && cugen::running_block != nullptr)
    cugen::memory_order.fence(cugen::running_block->thread());
}

#else

namespace cugen {

inline void forget_values(unsigned) {}

}  // namespace cugen

#endif
