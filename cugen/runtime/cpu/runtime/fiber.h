// Fibers (user-mode threads): each has a stack; a switch takes a few instructions. CUDA threads run as fibers.
#pragma once

#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

// -DCUGEN_UCONTEXT forces the portable implementation, which makes a system call per switch.
#if !defined(CUGEN_UCONTEXT) && (defined(__x86_64__) || defined(__aarch64__))
#define CUGEN_ASSEMBLY_SWITCH
#else
#include <ucontext.h>
#endif

#if defined(CUGEN_ADDRESS_SANITIZER)
extern "C" {
void __sanitizer_start_switch_fiber(void** save, const void* bottom, size_t size);
void __sanitizer_finish_switch_fiber(void* save, const void** old_bottom, size_t* old_size);
}
#endif

namespace cugen {

struct Fiber {
  void* stack_pointer = nullptr;
  const void* bottom = nullptr;
  size_t size = 0;
  void* sanitizer_state = nullptr;
#if !defined(CUGEN_ASSEMBLY_SWITCH)
  ucontext_t context;
#endif
};

#if defined(CUGEN_ASSEMBLY_SWITCH)
#if defined(__APPLE__)
#define CUGEN_SYMBOL "_cugen_switch"
#else
#define CUGEN_SYMBOL "cugen_switch"
#endif
// Saves the callee-saved registers on the old stack and restores them from the new one.
extern "C" void cugen_switch(void** save_stack_pointer, void* stack_pointer);
#if defined(__x86_64__)
asm(".text\n.globl " CUGEN_SYMBOL "\n.p2align 4\n" CUGEN_SYMBOL
    ":\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  ret\n");
constexpr size_t kSavedBytes = 64;      // six registers, the return address, and the word a call would have pushed
constexpr size_t kReturnAddressOffset = 48;
#else
asm(".text\n.globl " CUGEN_SYMBOL "\n.p2align 4\n" CUGEN_SYMBOL
    ":\n"
    "  sub sp, sp, #160\n"
    "  stp x19, x20, [sp, #0]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n"
    "  stp x25, x26, [sp, #48]\n  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
    "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n  stp d12, d13, [sp, #128]\n  stp d14, d15, [sp, #144]\n"
    "  mov x9, sp\n  str x9, [x0]\n  mov sp, x1\n"
    "  ldp x19, x20, [sp, #0]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n"
    "  ldp x25, x26, [sp, #48]\n  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
    "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n"
    "  add sp, sp, #160\n  ret\n");
constexpr size_t kSavedBytes = 160;
constexpr size_t kReturnAddressOffset = 88;
#endif
#endif

constexpr size_t kStackBytes = 256 * 1024;

// A fiber that will run `entry`, which never returns, with a guard page below its stack. Stacks start at different
// offsets in a page: else the same frames of all threads would map to the same cache sets.
inline void create_fiber(Fiber& fiber, size_t number, void (*entry)()) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  char* const base = static_cast<char*>(mmap(nullptr, kStackBytes + page, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (base == MAP_FAILED) fail("crash", 0, "no memory for the stack of a thread");
  mprotect(base, page, PROT_NONE);
  const size_t offset = number % 61 * 64;
  fiber.bottom = base + page;
  fiber.size = kStackBytes - offset;
#if defined(CUGEN_ASSEMBLY_SWITCH)
  char* const saved = base + page + fiber.size - kSavedBytes;
  *reinterpret_cast<void (**)()>(saved + kReturnAddressOffset) = entry;
  fiber.stack_pointer = saved;
#else
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = base + page;
  fiber.context.uc_stack.ss_size = fiber.size;
  makecontext(&fiber.context, entry, 0);
#endif
}

inline void destroy_fiber(Fiber& fiber) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  munmap(const_cast<char*>(static_cast<const char*>(fiber.bottom)) - page, kStackBytes + page);
}

inline void switch_fiber(Fiber& from, Fiber& to) {
#if defined(CUGEN_ADDRESS_SANITIZER)
  __sanitizer_start_switch_fiber(&from.sanitizer_state, to.bottom, to.size);
#endif
#if defined(CUGEN_ASSEMBLY_SWITCH)
  cugen_switch(&from.stack_pointer, to.stack_pointer);
#else
  swapcontext(&from.context, &to.context);
#endif
#if defined(CUGEN_ADDRESS_SANITIZER)
  __sanitizer_finish_switch_fiber(from.sanitizer_state, nullptr, nullptr);
#endif
}

// Start of `entry`; `host` is the worker's stack, whose bounds the sanitizer reports.
inline void enter_fiber([[maybe_unused]] Fiber& host) {
#if defined(CUGEN_ADDRESS_SANITIZER)
  const void* bottom;
  size_t size;
  __sanitizer_finish_switch_fiber(nullptr, &bottom, &size);
  if (host.bottom == nullptr) host.bottom = bottom, host.size = size;
#endif
}

}  // namespace cugen
