// Faults of instructions whose address must be one of shared memory (ldmatrix).
#pragma once

#include <stddef.h>

#include "arrays.h"
#include "block.h"

namespace cugen {

void require_shared(const char* what, const void* address, int line) {
  const char* memory = running_block->is_on_stack(address) ? "local" : nullptr;
  for (const Buffer& buffer : buffers)
    if (buffer.contains(address)) memory = "global";
  for (size_t i = 0; i < program.constant_count; ++i) {
    const char* const start = static_cast<const char*>(program.constants[i].address);
    if (address >= start && address < start + program.constants[i].bytes) memory = "constant or global";
  }
  if (memory != nullptr)
    fail("undefined", line, "%s at %s, which is %s memory instead of shared", what, describe(address).c_str(), memory);
}

}  // namespace cugen
