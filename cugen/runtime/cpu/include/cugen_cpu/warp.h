// Warp collectives. Values are exchanged as 64-bit words.
#pragma once

namespace cugen {

template <class T>
inline uint64_t to_word(T value) {
  static_assert(sizeof(T) <= 8, "a shuffle moves at most eight bytes");
  uint64_t word = 0;
  memcpy(&word, &value, sizeof value);
  return word;
}

template <class T>
inline T from_word(uint64_t word) {
  T value;
  memcpy(static_cast<void*>(&value), &word, sizeof value);
  return value;
}

}  // namespace cugen

#define CUGEN_SHUFFLE(name, kind, argument_type)                                                               \
  template <class T>                                                                                           \
  inline T name(unsigned mask, T value, argument_type argument, int width = 32, int line = __builtin_LINE()) { \
    return cugen::from_word<T>(cugen::warp_collective(cugen::Collective::kind, mask, cugen::to_word(value),     \
                                                      static_cast<unsigned>(argument),                         \
                                                      static_cast<unsigned>(width), line));                    \
  }
CUGEN_SHUFFLE(__shfl_sync, shuffle_index, int)
CUGEN_SHUFFLE(__shfl_up_sync, shuffle_up, unsigned int)
CUGEN_SHUFFLE(__shfl_down_sync, shuffle_down, unsigned int)
CUGEN_SHUFFLE(__shfl_xor_sync, shuffle_xor, int)
#undef CUGEN_SHUFFLE

inline void __syncwarp(unsigned mask = 0xffffffffu, int line = __builtin_LINE()) {
  cugen::warp_collective(cugen::Collective::sync, mask, 0, 0, 32, line);
}
inline unsigned __activemask() { return cugen::live_lanes(); }

#define CUGEN_VOTE(result, name, kind)                                                          \
  inline result name(unsigned mask, int predicate, int line = __builtin_LINE()) {               \
    return static_cast<result>(                                                                 \
        cugen::warp_collective(cugen::Collective::kind, mask, predicate != 0, 0, 32, line));    \
  }
CUGEN_VOTE(unsigned, __ballot_sync, ballot)
CUGEN_VOTE(int, __any_sync, any)
CUGEN_VOTE(int, __all_sync, all)
#undef CUGEN_VOTE

template <class T>
inline unsigned __match_any_sync(unsigned mask, T value, int line = __builtin_LINE()) {
  return static_cast<unsigned>(
      cugen::warp_collective(cugen::Collective::match_any, mask, cugen::to_word(value), 0, 32, line));
}
template <class T>
inline unsigned __match_all_sync(unsigned mask, T value, int* equal, int line = __builtin_LINE()) {
  const unsigned lanes = static_cast<unsigned>(
      cugen::warp_collective(cugen::Collective::match_all, mask, cugen::to_word(value), 0, 32, line));
  *equal = lanes != 0;
  return lanes;
}

#define CUGEN_REDUCE(type, name, kind)                                                                         \
  inline type name(unsigned mask, type value, int line = __builtin_LINE()) {                                   \
    return cugen::from_word<type>(                                                                             \
        cugen::warp_collective(cugen::Collective::kind, mask, cugen::to_word(value), 0, 32, line));            \
  }
CUGEN_REDUCE(int, __reduce_add_sync, add)
CUGEN_REDUCE(unsigned, __reduce_add_sync, add)
CUGEN_REDUCE(int, __reduce_min_sync, minimum_signed)
CUGEN_REDUCE(unsigned, __reduce_min_sync, minimum_unsigned)
CUGEN_REDUCE(int, __reduce_max_sync, maximum_signed)
CUGEN_REDUCE(unsigned, __reduce_max_sync, maximum_unsigned)
CUGEN_REDUCE(unsigned, __reduce_and_sync, bit_and)
CUGEN_REDUCE(unsigned, __reduce_or_sync, bit_or)
CUGEN_REDUCE(unsigned, __reduce_xor_sync, bit_xor)
#undef CUGEN_REDUCE
