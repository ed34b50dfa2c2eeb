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

// Linear filtering as an H100 was measured to do it, where the CUDA programming guide ("Linear filtering") leaves it
// open: see cugen/reference/filtering.py.

// The two elements of a coordinate, -1 for those outside with border, and the weight of the second one in 1/256.
struct FilteredIndex {
  long long element[2];
  int weight;
};

// An element of the array for one outside; with wrap at most one before or after the array, and with mirror also of the
// mirrored period after it.
CUGEN_INLINE long long texture_fold(const cugen_texture* texture, long long element, long long extent) {
  if (element >= 0 && element < extent) return element;
  switch (texture->address) {
    case cudaAddressModeBorder: return -1;
    case cudaAddressModeWrap: return element < 0 ? extent - 1 : 0;
    case cudaAddressModeMirror: return element < 0 || element >= 2 * extent ? 0 : 2 * extent - 1 - element;
    default: return element < 0 ? 0 : extent - 1;
  }
}

// A normalized coordinate in elements, in the first period of wrap, or in the first two of mirror. It is truncated to a
// number of fraction bits that grows with the larger extent; between 8192 and 16000, and between 65000 and 131072, it is
// not known where.
CUGEN_INLINE double texture_period(const cugen_texture* texture, float coordinate, size_t extent) {
  const size_t largest = texture->width > texture->height ? texture->width : texture->height;
  const double steps = largest < 16000 ? 0x1p21 : largest < 131072 ? 0x1p22 : 0x1p23;
  const double periods = texture->address == cudaAddressModeMirror ? 2.0 : 1.0;
  const double truncated = floor(static_cast<double>(coordinate) * steps) / steps;
  return (truncated - periods * floor(truncated / periods)) * static_cast<double>(extent);
}

CUGEN_INLINE FilteredIndex texture_filtered_index(const cugen_texture* texture, float coordinate, size_t extent) {
  const bool folds = texture->address == cudaAddressModeWrap || texture->address == cudaAddressModeMirror;
  double point = texture->normalized && folds ? texture_period(texture, coordinate, extent)
                                              : static_cast<double>(texture_coordinate(texture, coordinate, extent));
  point = fmin(fmax(point - 0.5, -2.0), 2.0 * static_cast<double>(extent));  // also of a NaN
  const long long step = static_cast<long long>(floor(point * 256.0 + 0.5));
  const long long first = step >> 8, count = static_cast<long long>(extent);
  return {{texture_fold(texture, first, count), texture_fold(texture, first + 1, count)}, static_cast<int>(step & 255)};
}

CUGEN_INLINE float texture_filtered(const cugen_texture* texture, float x, float y) {
  const FilteredIndex columns = texture_filtered_index(texture, x, texture->width);
  const FilteredIndex rows = texture_filtered_index(texture, y, texture->height);
  const int both = (rows.weight * columns.weight + 128) >> 8;
  const int weights[2][2] = {{256 - rows.weight - columns.weight + both, columns.weight - both},
                             {rows.weight - both, both}};
  double sum = 0.0;
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) {
      if (rows.element[i] < 0 || columns.element[j] < 0 || weights[i][j] == 0) continue;
      const char* const row =
          static_cast<const char*>(texture->data) + static_cast<size_t>(rows.element[i]) * texture->pitch;
      const double element = texture_element<float>(texture, row, static_cast<size_t>(columns.element[j]));
      if (!(fabs(element) < 0x1p-126)) sum += weights[i][j] / 256.0 * element;
    }
  return texture->bits == 16 ? decode(kHalf, encode(kHalf, sum)) : static_cast<float>(sum);
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
