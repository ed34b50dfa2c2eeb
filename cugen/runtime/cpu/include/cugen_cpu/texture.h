// Fetches from texture objects.
#pragma once

#include <math.h>

#include "narrow.h"
#include "texture_types.h"

namespace cugen {

template <class T>
constexpr cudaChannelFormatKind channel_kind() {
  return std::is_floating_point_v<T> ? cudaChannelFormatKindFloat
         : std::is_signed_v<T>       ? cudaChannelFormatKindSigned
                                     : cudaChannelFormatKindUnsigned;
}

// The description of an object of linear memory or, with `is_2d`, of pitched memory.
template <class T>
CUGEN_INLINE const cugen_texture* texture_of(cudaTextureObject_t object, bool is_2d, int line) {
  const cugen_texture* const texture = reinterpret_cast<const cugen_texture*>(object);
  if (texture == nullptr) fail("undefined", line, "a fetch from a texture object that was not created");
  if (channel_kind<T>() != texture->kind || (texture->bits != 8 * sizeof(T) && !std::is_same_v<T, float>))
    fail("undefined", line, "a fetch of a type that the texture's channel format does not have");
  if (is_2d != (texture->width > 0))
    fail("undefined", line, "a fetch from a texture object of another number of dimensions");
  return texture;
}

template <class T>
CUGEN_INLINE T texture_element(const cugen_texture* texture, const void* row, size_t x) {
  if constexpr (std::is_same_v<T, float>)
    if (texture->bits == 16) return decode(kHalf, static_cast<const unsigned short*>(row)[x]);
  return static_cast<const T*>(row)[x];
}

// The coordinate in elements; within the array where a normalized one is folded.
CUGEN_INLINE float texture_coordinate(const cugen_texture* texture, float coordinate, size_t extent) {
  if (!texture->normalized) return coordinate;
  const float periods = floorf(coordinate), fraction = coordinate - periods;
  const bool mirrored = texture->address == cudaAddressModeMirror && fmodf(periods, 2.0f) != 0.0f;
  if (texture->address == cudaAddressModeMirror || texture->address == cudaAddressModeWrap)
    coordinate = mirrored ? 1.0f - fraction : fraction;
  return coordinate * static_cast<float>(extent);
}

// The element of a coordinate by point sampling, or -1 outside with border.
CUGEN_INLINE long long texture_index(const cugen_texture* texture, float coordinate, size_t extent) {
  const float last = static_cast<float>(extent - 1);
  const float element = floorf(texture_coordinate(texture, coordinate, extent));
  if (texture->address == cudaAddressModeBorder && !(element >= 0.0f && element <= last)) return -1;
  return static_cast<long long>(fminf(fmaxf(element, 0.0f), last));
}

// The two elements of a coordinate by linear filtering, -1 for those outside with border, and their weights, in 1.8
// fixed point (CUDA programming guide, "Linear filtering").
struct FilteredIndex {
  long long element[2];
  float weight[2];
};

// An element, at most one before or after the array unless the address mode is clamp or border.
CUGEN_INLINE long long texture_fold(const cugen_texture* texture, long long element, size_t extent) {
  const long long last = static_cast<long long>(extent) - 1;
  if (element >= 0 && element <= last) return element;
  if (texture->address == cudaAddressModeBorder) return -1;
  const bool is_nearest = texture->address != cudaAddressModeWrap;  // mirror repeats the element at the edge
  return (element < 0) == is_nearest ? 0 : last;
}

CUGEN_INLINE FilteredIndex texture_filtered_index(const cugen_texture* texture, float coordinate, size_t extent) {
  const double outside = static_cast<double>(extent) + 2.0;
  double point = static_cast<double>(texture_coordinate(texture, coordinate, extent)) - 0.5;
  point = fmin(fmax(point, -2.0), outside);  // as clamp and border have it; also of a NaN
  const double element = floor(point), weight = floor((point - element) * 256.0 + 0.5) / 256.0;
  const long long first = static_cast<long long>(element);
  return {{texture_fold(texture, first, extent), texture_fold(texture, first + 1, extent)},
          {static_cast<float>(1.0 - weight), static_cast<float>(weight)}};
}

CUGEN_INLINE float texture_filtered(const cugen_texture* texture, float x, float y) {
  const FilteredIndex columns = texture_filtered_index(texture, x, texture->width);
  const FilteredIndex rows = texture_filtered_index(texture, y, texture->height);
  float sum = 0.0f;
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) {
      if (rows.element[i] < 0 || columns.element[j] < 0) continue;
      const char* const row =
          static_cast<const char*>(texture->data) + static_cast<size_t>(rows.element[i]) * texture->pitch;
      sum += rows.weight[i] * columns.weight[j] *
             texture_element<float>(texture, row, static_cast<size_t>(columns.element[j]));
    }
  return sum;
}

}  // namespace cugen

// Outside the array a fetch gives 0 and reads nothing.
template <class T>
CUGEN_INLINE T tex1Dfetch(cudaTextureObject_t object, int x, int line = __builtin_LINE()) {
  const cugen_texture* const texture = cugen::texture_of<T>(object, false, line);
  if (x < 0 || static_cast<size_t>(x) >= texture->elements) return T(0);
  return cugen::texture_element<T>(texture, texture->data, static_cast<size_t>(x));
}

// The centre of element (i, j) of row j is (i + 0.5, j + 0.5).
template <class T>
CUGEN_INLINE T tex2D(cudaTextureObject_t object, float x, float y, int line = __builtin_LINE()) {
  const cugen_texture* const texture = cugen::texture_of<T>(object, true, line);
  if constexpr (std::is_same_v<T, float>)
    if (texture->linear) return cugen::texture_filtered(texture, x, y);
  const long long column = cugen::texture_index(texture, x, texture->width);
  const long long row = cugen::texture_index(texture, y, texture->height);
  if (column < 0 || row < 0) return T(0);
  const char* const start = static_cast<const char*>(texture->data) + static_cast<size_t>(row) * texture->pitch;
  return cugen::texture_element<T>(texture, start, static_cast<size_t>(column));
}
