// Tensor maps: boxes of an array in global memory that TMA copies (CUDA driver API, tensor map object management).
#pragma once

#include <stdint.h>

// In place of the driver's opaque object. Dimension 0 is the contiguous one; `strides` are in bytes, that of dimension 0
// is `element_bytes`. In shared memory the 16-byte chunks of a row of `swizzle_bytes` are swizzled, unless these are 0.
struct alignas(64) CUtensorMap {
  unsigned char* address;
  uint64_t sizes[3];
  uint64_t strides[3];
  uint32_t box[3];
  uint32_t rank;
  uint32_t swizzle_bytes;
  uint32_t element_bytes;
  uint32_t rounds_to_tf32;  // loads round float32 to tf32, to nearest
};
static_assert(sizeof(CUtensorMap) == 128, "as large as that of the driver");
