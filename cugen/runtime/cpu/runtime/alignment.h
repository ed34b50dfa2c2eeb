// Faults of accesses whose address is no multiple of their type's alignment.
#pragma once

#include <stdint.h>

#include "arrays.h"

namespace cugen {

constexpr const char* kMisaligned = "%s at %s, an address that is no multiple of %zu";

void fail_misaligned(const char* what, const void* address, size_t alignment, int line) {
  fail("misaligned-address", line, kMisaligned, what, describe(address).c_str(), alignment);
}

}  // namespace cugen

// What -fsanitize=alignment calls, in place of the runtime of UndefinedBehaviorSanitizer.
#if !defined(CUGEN_ADDRESS_SANITIZER)

namespace cugen {

// Layout of GCC and Clang (ubsan_handlers.h).
struct TypeMismatch {
  const char* file;
  uint32_t line, column;
  const void* type;
  unsigned char log_alignment;
  unsigned char kind;
};

}  // namespace cugen

extern "C" void __ubsan_handle_type_mismatch_v1_abort(const cugen::TypeMismatch* data, const void* address) {
  const char* const counter = static_cast<const char*>(__builtin_return_address(0)) - 1;
  cugen::fail_from("misaligned-address", counter, cugen::kMisaligned, "access", cugen::describe(address).c_str(),
                   size_t{1} << data->log_alignment);
}

#endif
