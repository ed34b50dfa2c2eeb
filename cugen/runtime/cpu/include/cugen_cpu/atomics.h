// Atomics by a compare-and-swap loop: relaxed, as CUDA's are; they return the old value.
#pragma once

namespace cugen {

template <size_t bytes>
struct Word;
template <>
struct Word<2> { using type = uint16_t; };
template <>
struct Word<4> { using type = uint32_t; };
template <>
struct Word<8> { using type = uint64_t; };

template <class T, class Change>
CUGEN_INLINE T modify(T* address, Change change) {
  using Bits = typename Word<sizeof(T)>::type;
  Bits* const word = reinterpret_cast<Bits*>(address);
  Bits before = __atomic_load_n(word, __ATOMIC_RELAXED);
  T old;
  Bits after;
  do {
    memcpy(static_cast<void*>(&old), &before, sizeof old);
    const T value = change(old);
    memcpy(&after, &value, sizeof after);
  } while (!__atomic_compare_exchange_n(word, &before, after, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  if (after != before) count_change();
  return old;
}

}  // namespace cugen

#define CUGEN_ATOMIC(name, type, expression)                                       \
  CUGEN_INLINE type name(type* address, type value) {                              \
    return cugen::modify(address, [&]([[maybe_unused]] type old) -> type { return (expression); }); \
  }
#define CUGEN_ATOMIC_INTEGERS(name, expression)          \
  CUGEN_ATOMIC(name, int, expression)                    \
  CUGEN_ATOMIC(name, unsigned int, expression)           \
  CUGEN_ATOMIC(name, unsigned long long, expression)

CUGEN_ATOMIC_INTEGERS(atomicAdd, old + value)
CUGEN_ATOMIC(atomicAdd, float, old + value)
CUGEN_ATOMIC(atomicAdd, double, old + value)
CUGEN_ATOMIC(atomicSub, int, old - value)
CUGEN_ATOMIC(atomicSub, unsigned int, old - value)
CUGEN_ATOMIC_INTEGERS(atomicMax, old > value ? old : value)
CUGEN_ATOMIC(atomicMax, long long, old > value ? old : value)
CUGEN_ATOMIC_INTEGERS(atomicMin, old < value ? old : value)
CUGEN_ATOMIC(atomicMin, long long, old < value ? old : value)
CUGEN_ATOMIC_INTEGERS(atomicExch, value)
CUGEN_ATOMIC(atomicExch, float, value)
CUGEN_ATOMIC_INTEGERS(atomicAnd, old & value)
CUGEN_ATOMIC_INTEGERS(atomicOr, old | value)
CUGEN_ATOMIC_INTEGERS(atomicXor, old ^ value)
CUGEN_ATOMIC(atomicInc, unsigned int, old >= value ? 0u : old + 1u)
CUGEN_ATOMIC(atomicDec, unsigned int, old == 0u || old > value ? value : old - 1u)

#define CUGEN_ATOMIC_CAS(type)                                                                \
  CUGEN_INLINE type atomicCAS(type* address, type compare, type value) {                      \
    return cugen::modify(address, [&](type old) { return old == compare ? value : old; });    \
  }
CUGEN_ATOMIC_CAS(int)
CUGEN_ATOMIC_CAS(unsigned int)
CUGEN_ATOMIC_CAS(unsigned long long)
CUGEN_ATOMIC_CAS(unsigned short)
#undef CUGEN_ATOMIC_CAS
