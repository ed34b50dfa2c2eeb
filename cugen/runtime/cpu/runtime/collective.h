// Warp collectives: lanes gather by mask, and the last to come computes the results of all.
#pragma once

#include "block.h"

namespace cugen {

inline uint64_t Block::collective(Collective kind, unsigned mask, uint64_t value, unsigned argument, unsigned width,
                                  int line) {
  const unsigned lane = lane_, first = lane & ~31u, bit = 1u << (lane & 31u);
  if (!(mask & bit)) fail("divergence", line, "a thread calls a warp collective whose mask %08x leaves it out", mask);

  std::vector<Gathering>& warp = gatherings_[lane / 32];
  auto found = std::find_if(warp.begin(), warp.end(), [&](const Gathering& g) { return g.mask == mask; });
  if (found == warp.end()) {
    warp.push_back({kind, mask, 0, width, line});
    found = warp.end() - 1;
  } else if (found->kind != kind || found->line != line || found->width != width) {
    const unsigned other = first + static_cast<unsigned>(__builtin_ctz(found->arrived));
    fail_with_both(other, found->line, line);
  }
  lanes_[lane].value = value;
  lanes_[lane].argument = argument;
  found->arrived |= bit;
  if (found->arrived != (mask & lanes_from(first))) {
    wait(State::at_collective, line);
    return lanes_[lane].result;
  }
  const Gathering gathering = *found;
  warp.erase(found);
  finish(gathering, first);
  if (kind == Collective::sync) watch.warp_barrier(first, gathering.arrived);
  return lanes_[lane].result;
}

// The lane that a shuffle reads, or 32 where it keeps its own value (PTX manual, shfl.sync).
inline unsigned source_lane(Collective kind, unsigned lane, unsigned argument, unsigned width) {
  const unsigned lowest = lane & ~(width - 1), highest = lowest | (width - 1);
  switch (kind) {
    case Collective::shuffle_index: return lowest | (argument & (width - 1));
    case Collective::shuffle_up: return lane >= lowest + argument ? lane - argument : 32;
    case Collective::shuffle_down: return lane + argument <= highest ? lane + argument : 32;
    default: return (lane ^ argument) <= highest ? lane ^ argument : 32;
  }
}

inline uint64_t combine(Collective kind, uint64_t a, uint64_t b) {
  const uint32_t u = static_cast<uint32_t>(a), v = static_cast<uint32_t>(b);
  const int32_t s = static_cast<int32_t>(u), t = static_cast<int32_t>(v);
  switch (kind) {
    case Collective::add: return u + v;
    case Collective::minimum_signed: return static_cast<uint32_t>(std::min(s, t));
    case Collective::maximum_signed: return static_cast<uint32_t>(std::max(s, t));
    case Collective::minimum_unsigned: return std::min(u, v);
    case Collective::maximum_unsigned: return std::max(u, v);
    case Collective::bit_and: return u & v;
    case Collective::bit_or: return u | v;
    default: return u ^ v;
  }
}

// Each lane's sums of 16 x `depth` by `depth` x 8 elements: lane 4 * g + t has those of rows g and g + 8.
inline void multiply_tiles(const TileParts* const (&parts)[32], unsigned depth) {
  for (unsigned lane = 0; lane < 32; ++lane) {
    const unsigned row = lane & ~3u, column = lane % 4 * 2;
    for (unsigned n = 0; n < 2; ++n)
      for (unsigned k = 0; k < depth; ++k) {
        const double* const a = parts[row + k % 4]->a + k / 4 * 2;
        const double b = parts[(column + n) * 4 + k % 4]->b[k / 4];
        parts[lane]->upper[n] = __builtin_fma(a[0], b, parts[lane]->upper[n]);
        parts[lane]->lower[n] = __builtin_fma(a[1], b, parts[lane]->lower[n]);
      }
  }
}

inline void Block::finish(const Gathering& gathering, unsigned first_lane) {
  Lane* const warp = lanes_ + first_lane;
  const unsigned mask = gathering.arrived;
  const auto each = [mask](auto action) {
    for (unsigned rest = mask; rest != 0; rest &= rest - 1) action(static_cast<unsigned>(__builtin_ctz(rest)));
  };
  each([&](unsigned i) { state_[first_lane + i] = State::ready; });
  if (gathering.kind == Collective::sync) return;

  if (gathering.kind <= Collective::shuffle_xor) {
    const unsigned width = gathering.width;
    if (width == 0 || width > 32 || (width & (width - 1)) != 0)
      fail("divergence", gathering.line, "a shuffle's width is %u: not a power of two up to 32", width);
    each([&](unsigned i) {
      const unsigned source = source_lane(gathering.kind, i, warp[i].argument, width);
      // A lane that doesn't take part has no value to give: all ones, a NaN in every format, show up in the result.
      warp[i].result = source == 32 ? warp[i].value : mask >> source & 1u ? warp[source].value : ~0ull;
    });
    return;
  }

  if (gathering.kind == Collective::multiply_tiles) {
    if (mask != ~0u) fail("divergence", gathering.line, "a tensor core multiplies for a warp of 32 lanes, not of fewer");
    const TileParts* parts[32];
    each([&](unsigned i) { parts[i] = reinterpret_cast<const TileParts*>(warp[i].value); });
    multiply_tiles(parts, warp[0].argument);
    return;
  }

  uint64_t common = 0;
  const uint64_t first_value = warp[__builtin_ctz(mask)].value;
  switch (gathering.kind) {
    case Collective::ballot:
      each([&](unsigned i) { common |= (warp[i].value & 1u) << i; });
      break;
    case Collective::any:
      each([&](unsigned i) { common |= warp[i].value; });
      break;
    case Collective::all:
      common = 1;
      each([&](unsigned i) { common &= warp[i].value; });
      break;
    case Collective::match_all:
      common = mask;
      each([&](unsigned i) { common = warp[i].value == first_value ? common : 0; });
      break;
    case Collective::match_any:
      each([&](unsigned i) {
        warp[i].result = 0;
        each([&](unsigned j) { warp[i].result |= static_cast<uint64_t>(warp[i].value == warp[j].value) << j; });
      });
      return;
    default: {
      common = first_value;
      for (unsigned rest = mask & (mask - 1); rest != 0; rest &= rest - 1)
        common = combine(gathering.kind, common, warp[__builtin_ctz(rest)].value);
    }
  }
  each([&](unsigned i) { warp[i].result = common; });
}

}  // namespace cugen
