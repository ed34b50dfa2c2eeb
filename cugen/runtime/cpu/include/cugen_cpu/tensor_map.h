// Tensor maps: boxes of an array in global memory that TMA copies (CUDA driver API, tensor map object management).
#pragma once

#include <stdint.h>

// In place of the driver's opaque object. Dimension 0 is the contiguous one; `strides` are in bytes, that of dimension 0
// is `element_bytes`. In shared memory the 16-byte chunks of a row of `swizzle_bytes` are swizzled, unless these are 0.
//
// In im2col mode a box is box[1] pixels of box[0] channels. Pixels follow each other along dimension 1 first, from
// `lower` to the last one plus `upper`, each `steps`-th.
struct alignas(64) CUtensorMap {
  unsigned char* address;
  uint64_t sizes[5];
  uint64_t strides[5];
  uint32_t box[5];
  uint8_t rank;
  uint8_t swizzle_bytes;
  uint8_t element_bytes;
  uint8_t rounds_to_tf32;  // loads round float32 to tf32, to nearest
  uint8_t is_im2col;
  uint8_t steps[3];
  int16_t lower[3];
  int16_t upper[3];
};
static_assert(sizeof(CUtensorMap) == 128, "as large as that of the driver");
