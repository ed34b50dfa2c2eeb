// Names of the arrays of a program, for the messages of faults.
#pragma once

#if defined(__linux__)
#include <link.h>
#endif

#include <string>
#include <vector>

#include "buffers.h"

namespace cugen {

struct SharedArray {
  std::string name;
  char* start;  // with several workers relative to the thread-local variables of one
  size_t bytes;
};

inline std::vector<SharedArray> shared_arrays, thread_local_arrays;  // static ones, where known to the parent

// The program's thread-local variables of this worker; null where unknown.
inline char* thread_local_start() {
  void* start = nullptr;
#if defined(__linux__)
  dl_iterate_phdr(
      [](dl_phdr_info* information, size_t, void* result) {
        *static_cast<void**>(result) = information->dlpi_tls_data;
        return 1;
      },
      &start);
#endif
  return static_cast<char*>(start);
}

// Reports the addresses of shared arrays and variables.
inline void report_memory() {
  const auto report_array = [](const char* name, const void* start, size_t bytes) {
    dprintf(report, "memory %s %zx %zu\n", name, reinterpret_cast<size_t>(start), bytes);
  };
  for (const SharedArray& array : shared_arrays) report_array(array.name.c_str(), array.start, array.bytes);
  for (size_t i = 0; i < program.dynamic_shared_count; ++i)
    report_array(program.dynamic_shared(i).name, program.dynamic_shared(i).address, program.dynamic_shared(i).bytes);
  for (size_t i = 0; i < program.constant_count; ++i)
    report_array(program.constants[i].name, program.constants[i].address, program.constants[i].bytes);
}

// "byte 4 of A", or where the address is else.
inline std::string describe(const void* pointer) {
  const char* const address = static_cast<const char*>(pointer);
  std::string text;
  const auto is_inside = [&](const std::string& name, const char* start, size_t bytes) {
    if (text.empty() && start != nullptr && address >= start && address < start + bytes)
      text = "byte " + std::to_string(address - start) + " of " + name;
  };
  for (const Buffer& buffer : buffers) is_inside(buffer.name, buffer.start, buffer.bytes);
  for (const SharedArray& array : shared_arrays) is_inside(array.name, array.start, array.bytes);
  if (char* const start = thread_local_arrays.empty() ? nullptr : thread_local_start())
    for (const SharedArray& array : thread_local_arrays)
      is_inside(array.name, start + reinterpret_cast<size_t>(array.start), array.bytes);
  for (size_t i = 0; i < program.dynamic_shared_count; ++i) {
    const Symbol array = program.dynamic_shared(i);
    is_inside(array.name, static_cast<char*>(array.address), array.bytes);
  }
  for (size_t i = 0; i < program.constant_count; ++i)
    is_inside(program.constants[i].name, static_cast<char*>(program.constants[i].address), program.constants[i].bytes);
  return text.empty() ? "a local variable" : text;
}

}  // namespace cugen
