// The functions that -fsanitize=thread calls at each access, without that sanitizer's runtime: they write down who
// touched what from where, and find races on shared memory.
#pragma once

#if defined(CUGEN_TRACE)

#include <stdio.h>

#include <algorithm>
#include <string>
#include <vector>

#include "block.h"

namespace cugen {

enum class Access : uint8_t { read, write, atomic };

// As it lies in the file; trace.py knows the same layout.
struct Record {
  uint64_t counter;  // address of the code
  uint64_t offset;   // bytes into the array
  uint32_t launch, block, thread, interval;
  uint16_t array;
  uint8_t kind, bytes;
  uint32_t unused;
};
static_assert(sizeof(Record) == 40);

// What lanes of one warp did alike. None is left out, as barriers may have ordered all others with who comes next;
// they share an entry, as many a byte is read by all threads.
struct Past {
  uint64_t counter;
  uint32_t step;
  uint32_t lanes;
  uint8_t warp;
  Access kind;

  bool is_like(const Past& other) const {
    return warp == other.warp && kind == other.kind && step == other.step && counter == other.counter;
  }
};

// What happened to one byte of shared memory in the interval `epoch`.
struct Cell {
  uint32_t epoch = 0;
  std::vector<Past> writes, reads;  // the last of each thread; entries without lanes are free
};

struct Watched {
  std::string name;
  char* start;
  size_t bytes;
  std::vector<Cell> cells;  // of shared arrays
};

inline std::vector<Watched> watched;
inline FILE* trace_file = nullptr;

inline void watch_array(const std::string& name, void* start, size_t bytes, bool shared) {
  dprintf(report, "array %s %s\n", shared ? "shared" : "global", name.c_str());
  watched.push_back({name, static_cast<char*>(start), bytes, std::vector<Cell>(shared ? bytes : 0)});
}

// The lanes of `past` that no barrier orders before the one lane of `access`.
inline unsigned unordered(const Past& past, const Past& access) {
  if (watch.met[past.warp][access.warp] > past.step) return 0;
  if (past.warp != access.warp) return past.lanes;
  const auto& steps = watch.synchronised[access.warp][__builtin_ctz(access.lanes)];
  unsigned found = past.lanes & ~access.lanes;
  for (unsigned rest = found; rest != 0; rest &= rest - 1)
    if (steps[__builtin_ctz(rest)] > past.step) found &= ~(rest & -rest);
  return found;
}

inline void note(std::vector<Past>& list, const Past& access) {
  for (Past& past : list)
    if (past.warp == access.warp) past.lanes &= ~access.lanes;
  const auto place =
      std::find_if(list.begin(), list.end(), [&](const Past& past) { return past.lanes == 0 || past.is_like(access); });
  if (place == list.end()) {
    list.push_back(access);
  } else {
    const unsigned others = place->lanes;
    *place = access;
    place->lanes |= others;
  }
}

inline void check_race(const Watched& array, Cell& cell, size_t offset, const Past& access) {
  if (cell.epoch != watch.epoch) {
    cell.epoch = watch.epoch;
    cell.writes.clear();
    cell.reads.clear();
  }
  const auto conflict = [&](const std::vector<Past>& list, const char* what) {
    for (const Past& past : list) {
      if (past.kind == Access::atomic && access.kind == Access::atomic) continue;
      if (const unsigned lanes = unordered(past, access))
        fail_from("race", reinterpret_cast<const void*>(access.counter),
                  "%s of byte %zu of %s, with no barrier since a %s by thread number %u at @%zx@",
                  access.kind == Access::read ? "read" : "write", offset, array.name.c_str(), what,
                  past.warp * 32u + static_cast<unsigned>(__builtin_ctz(lanes)), static_cast<size_t>(past.counter));
    }
  };
  conflict(cell.writes, "write");
  if (access.kind != Access::read) conflict(cell.reads, "read");
  note(access.kind == Access::read ? cell.reads : cell.writes, access);
}

inline void access(const void* pointer, size_t bytes, Access kind, const void* return_address) {
  if (running_block == nullptr) return;
  const char* const address = static_cast<const char*>(pointer);
  const auto found = std::find_if(watched.begin(), watched.end(),
                                  [&](const Watched& w) { return address >= w.start && address < w.start + w.bytes; });
  if (found == watched.end()) return;
  const size_t offset = static_cast<size_t>(address - found->start);
  const uint64_t counter = reinterpret_cast<uint64_t>(return_address) - 1;
  const unsigned thread = running_block->thread();
  if (trace_file != nullptr) {
    const Record record = {counter, offset, watch.launch, watch.block, thread, watch.interval,
                           static_cast<uint16_t>(found - watched.begin()), static_cast<uint8_t>(kind),
                           static_cast<uint8_t>(bytes), 0};
    fwrite(&record, sizeof record, 1, trace_file);
  } else {
    const Past now = {counter, watch.step, 1u << thread % 32, static_cast<uint8_t>(thread / 32), kind};
    for (size_t i = offset; i < std::min(offset + bytes, found->cells.size()); ++i)
      check_race(*found, found->cells[i], i, now);
  }
}

// In a trace a copy writes where it stands in the source; races are looked for at both ends of its time.
void note_arrival(void* destination, size_t bytes, const void* place) {
  if (trace_file == nullptr) access(destination, bytes, Access::write, place);
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

// An atomic is one access, though it is a load and at least one exchange.
#define CUGEN_ATOMIC_HOOKS(bits, type)                                                                              \
  extern "C" type __tsan_atomic##bits##_load(const type* address, int) { return *address; }                        \
  extern "C" int __tsan_atomic##bits##_compare_exchange_strong(type* address, type* expected, type desired, int, int) { \
    cugen::access(address, sizeof(type), cugen::Access::atomic, __builtin_return_address(0));                       \
    *address = desired;                                                                                             \
    (void)expected;                                                                                                 \
    return 1;                                                                                                       \
  }
CUGEN_ATOMIC_HOOKS(16, uint16_t)
CUGEN_ATOMIC_HOOKS(32, uint32_t)
CUGEN_ATOMIC_HOOKS(64, uint64_t)

extern "C" void __tsan_init() {}
extern "C" void __tsan_func_entry(void*) {}
extern "C" void __tsan_func_exit() {}
extern "C" void __tsan_atomic_thread_fence(int) {}

#endif
