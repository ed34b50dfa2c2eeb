// The report read by the parent: times, address ranges, and the fault that ended the process.
#pragma once

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <atomic>

__thread uint3 threadIdx;
__thread uint3 blockIdx;
__thread uint3 blockDim;
__thread uint3 gridDim;

namespace cugen {

class Block;
inline __thread Block* running_block = nullptr;  // of this worker; null outside kernels

inline int report = -1;
inline std::atomic<bool> failed{false};

// Writes "fault <kind> <line> <program counter> <message>" for the first fault only. Takes no locks, since signal handlers
// call it.
[[noreturn]] inline void fail_at(const char* kind, int line, const void* counter, const char* format, va_list arguments) {
  if (failed.exchange(true))
    for (;;) pause();
  char message[512], location[128] = "", text[1024];
  vsnprintf(message, sizeof message, format, arguments);
  if (running_block != nullptr)
    snprintf(location, sizeof location, "thread (%u,%u,%u) of block (%u,%u,%u): ", threadIdx.x, threadIdx.y, threadIdx.z,
             blockIdx.x, blockIdx.y, blockIdx.z);
  const int length = snprintf(text, sizeof text, "fault %s %d %zx %s%s\n", kind, line, reinterpret_cast<size_t>(counter),
                              location, message);
  const ssize_t written = write(report, text, static_cast<size_t>(length));
  _exit(written == length ? 3 : 4);
}

void fail(const char* kind, int line, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fail_at(kind, line, nullptr, format, arguments);
}

// `counter` is a code address, which the parent maps to a line.
[[noreturn]] inline void fail_from(const char* kind, const void* counter, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fail_at(kind, 0, counter, format, arguments);
}

}  // namespace cugen
