// Buffers between guard pages. A buffer ends at the guard page, up to its alignment; the slack on either side is filled
// with a canary pattern, which is checked after each launch.
#pragma once

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "poison.h"
#include "report.h"

#if defined(CUGEN_ADDRESS_SANITIZER)
extern "C" {
void __asan_poison_memory_region(const volatile void* address, size_t bytes);
void __asan_unpoison_memory_region(const volatile void* address, size_t bytes);
}
#endif

#if defined(__linux__)
#include <ucontext.h>
#endif

namespace cugen {

#if defined(CUGEN_ADDRESS_SANITIZER)
constexpr size_t kGuardBytes = 1 << 20;  // poisoned, at a cost of one eighth in shadow memory
#else
constexpr size_t kGuardBytes = 16 << 20;  // reserved address space only
#endif

constexpr unsigned char kCanary = 0xa5;

enum class Role { input, output, inout, workspace, zeroed };

struct Buffer {
  std::string name;
  Role role;
  size_t bytes;
  char* region;  // including both guards
  size_t region_bytes;
  char* start;
  std::vector<char> initial;  // contents of an inout before the first run

  char* usable() const { return region + kGuardBytes; }
  char* usable_end() const { return region + region_bytes - kGuardBytes; }
  bool contains(const void* address) const { return address >= region && address < region + region_bytes; }
};

inline std::vector<Buffer> buffers;

inline Buffer& create_buffer(const std::string& name, size_t bytes, size_t alignment, Role role) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t usable = (bytes + page) / page * page;
  char* const region = static_cast<char*>(mmap(nullptr, usable + 2 * kGuardBytes, PROT_NONE,
                                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (region == MAP_FAILED || mprotect(region + kGuardBytes, usable, PROT_READ | PROT_WRITE) != 0)
    fail("memory", 0, "no memory for %s: %zu bytes", name.c_str(), bytes);
  char* const end = region + kGuardBytes + usable;
  char* const start = end - (bytes + alignment - 1) / alignment * alignment;
  memset(region + kGuardBytes, kCanary, usable);
  buffers.push_back({name, role, bytes, region, usable + 2 * kGuardBytes, start, {}});
  return buffers.back();
}

// Makes inputs read-only and poisons the slack, after initialisation.
inline void seal(const Buffer& buffer) {
#if defined(CUGEN_ADDRESS_SANITIZER)
  __asan_poison_memory_region(buffer.region, static_cast<size_t>(buffer.start - buffer.region));
  const char* const end = buffer.start + buffer.bytes;
  __asan_poison_memory_region(end, static_cast<size_t>(buffer.region + buffer.region_bytes - end));
#endif
  if (buffer.role == Role::input) mprotect(buffer.usable(), static_cast<size_t>(buffer.usable_end() - buffer.usable()), PROT_READ);
}

// In sanitised builds the slack is poisoned instead.
inline void check_canaries([[maybe_unused]] const char* kernel) {
#if !defined(CUGEN_ADDRESS_SANITIZER)
  for (const Buffer& buffer : buffers) {
    const char* const end = buffer.start + buffer.bytes;
    for (const char* p = buffer.usable(); p < buffer.usable_end(); ++p) {
      if (p == buffer.start) p = end;
      if (p == buffer.usable_end()) break;
      if (static_cast<unsigned char>(*p) == kCanary) continue;
      if (p < buffer.start)
        fail("out-of-bounds", 0, "%s wrote %zu bytes before the start of %s", kernel,
             static_cast<size_t>(buffer.start - p), buffer.name.c_str());
      fail("out-of-bounds", 0, "%s wrote %zu bytes past the end of %s", kernel, static_cast<size_t>(p - end),
           buffer.name.c_str());
    }
  }
#endif
}

inline void on_fault(int number, siginfo_t* information, void* context) {
  const void* counter = nullptr;
  const char* access = "access";
#if defined(__linux__) && defined(__x86_64__)
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
  counter = reinterpret_cast<const void*>(registers[REG_RIP]);
  access = registers[REG_ERR] & 2 ? "write" : "read";
#elif defined(__linux__) && defined(__aarch64__)
  counter = reinterpret_cast<const void*>(static_cast<const ucontext_t*>(context)->uc_mcontext.pc);
#endif
  const char* const address = static_cast<const char*>(information->si_addr);
  if (number == SIGSEGV || number == SIGBUS) {
    for (const Buffer& buffer : buffers) {
      if (!buffer.contains(address)) continue;
      const char* const name = buffer.name.c_str();
      if (address < buffer.start)
        fail_from("out-of-bounds", counter, "%s %zu bytes before the start of %s", access,
                  static_cast<size_t>(buffer.start - address), name);
      if (address >= buffer.start + buffer.bytes)
        fail_from("out-of-bounds", counter, "%s %zu bytes past the end of %s, which has %zu", access,
                  static_cast<size_t>(address - buffer.start) - buffer.bytes, name, buffer.bytes);
      fail_from("read-only", counter, "write to the input %s at byte %zu", name,
                static_cast<size_t>(address - buffer.start));
    }
    fail_from("crash", counter, "%s of an address in no buffer (%p)", access, static_cast<const void*>(address));
  }
  fail_from("crash", counter, "%s", number == SIGFPE ? "an integer division by zero" : strsignal(number));
}

// Signal stack of this worker: its own stack may have overflowed.
inline void catch_faults_on_this_thread() {
#if !defined(CUGEN_ADDRESS_SANITIZER)
  constexpr size_t bytes = 64 * 1024;
  stack_t stack{};
  stack.ss_sp = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  stack.ss_size = bytes;
  sigaltstack(&stack, nullptr);
  struct sigaction action{};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigaction(number, &action, nullptr);
#endif
}

}  // namespace cugen
