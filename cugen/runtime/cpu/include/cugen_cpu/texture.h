// Fetches from texture objects.
#pragma once

#include "narrow.h"
#include "texture_types.h"

namespace cugen {

template <class T>
constexpr cudaChannelFormatKind channel_kind() {
  return std::is_floating_point_v<T> ? cudaChannelFormatKindFloat
         : std::is_signed_v<T>       ? cudaChannelFormatKindSigned
                                     : cudaChannelFormatKindUnsigned;
}

}  // namespace cugen

// Outside the array a fetch gives 0 and reads nothing.
template <class T>
CUGEN_INLINE T tex1Dfetch(cudaTextureObject_t object, int x, int line = __builtin_LINE()) {
  const cugen_texture* const texture = reinterpret_cast<const cugen_texture*>(object);
  if (texture == nullptr) cugen::fail("undefined", line, "a fetch from a texture object that was not created");
  if (cugen::channel_kind<T>() != texture->kind || (texture->bits != 8 * sizeof(T) && !std::is_same_v<T, float>))
    cugen::fail("undefined", line, "a fetch of a type that the texture's channel format does not have");
  if (x < 0 || static_cast<size_t>(x) >= texture->elements) return T(0);
  if constexpr (std::is_same_v<T, float>)
    if (texture->bits == 16) return cugen::decode(cugen::kHalf, static_cast<const unsigned short*>(texture->data)[x]);
  return static_cast<const T*>(texture->data)[x];
}
