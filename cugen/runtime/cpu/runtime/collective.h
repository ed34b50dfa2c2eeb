// Warp collectives: lanes with the same mask wait, and the last to arrive computes the results of all.
#pragma once

#include "block.h"
#include "tensor.h"

namespace cugen {

inline uint64_t Block::collective(Collective kind, unsigned mask, uint64_t value, unsigned argument, unsigned width,
                                  int line) {
  const unsigned lane = lane_, first = lane & ~31u, bit = 1u << (lane & 31u);
  if (!(mask & bit)) fail("divergence", line, "a thread calls a warp collective whose mask %08x excludes it", mask);

  std::vector<PendingCollective>& warp = pending_collectives_[lane / 32];
  auto match = std::find_if(warp.begin(), warp.end(), [&](const PendingCollective& g) { return g.mask == mask; });
  if (match == warp.end()) {
    warp.push_back({kind, mask, 0, width, line});
    match = warp.end() - 1;
  } else if (match->kind != kind || match->line != line || match->width != width) {
    const unsigned waiting_lane = first + static_cast<unsigned>(__builtin_ctz(match->arrived));
    fail_diverged(waiting_lane, match->line, line);
  }
  lanes_[lane].value = value;
  lanes_[lane].argument = argument;
  match->arrived |= bit;
  if (match->arrived != (mask & lanes_from(first))) {
    wait(State::at_collective, line);
    return lanes_[lane].result;
  }
  const PendingCollective complete = *match;
  warp.erase(match);
  finish(complete, first);
  if (kind == Collective::sync) {
    sync_clock.warp_barrier(first, complete.arrived);
    memory_order.warp_barrier(first, complete.arrived);
  }
  return lanes_[lane].result;
}

// Source lane of a shuffle, or 32 for the lane's own value (PTX ISA, shfl.sync).
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

inline void Block::finish(const PendingCollective& pending, unsigned first_lane) {
  Lane* const warp = lanes_ + first_lane;
  const unsigned mask = pending.arrived;
  const auto each = [mask](auto action) {
    for (unsigned lanes = mask; lanes != 0; lanes &= lanes - 1) action(static_cast<unsigned>(__builtin_ctz(lanes)));
  };
  each([&](unsigned i) { state_[first_lane + i] = State::ready; });
  if (pending.kind == Collective::sync) return;

  if (pending.kind <= Collective::shuffle_xor) {
    const unsigned width = pending.width;
    if (width == 0 || width > 32 || (width & (width - 1)) != 0)
      fail("divergence", pending.line, "a shuffle's width is %u: not a power of two up to 32", width);
    each([&](unsigned i) {
      const unsigned source = source_lane(pending.kind, i, warp[i].argument, width);
      // Undefined for a source lane outside the mask: all ones, NaN in every floating-point format.
      warp[i].result = source == 32 ? warp[i].value : mask >> source & 1u ? warp[source].value : ~0ull;
    });
    return;
  }

  if (pending.kind >= Collective::mma) {
    const bool is_mma = pending.kind == Collective::mma, is_store = pending.kind >= Collective::store_matrices;
    if (mask != ~0u)
      fail("divergence", pending.line, "%s with fewer than 32 lanes",
           is_mma ? "mma.sync" : is_store ? "stmatrix.sync" : "ldmatrix.sync");
    const auto parts = [warp](auto& lanes) {
      for (unsigned i = 0; i < 32; ++i) lanes[i] = reinterpret_cast<decltype(+lanes[i])>(warp[i].value);
    };
    if (is_mma) {
      const MmaFragments* lanes[32];
      parts(lanes);
      mma(lanes);
    } else if (is_store) {
      StoredMatrixRow* lanes[32];
      parts(lanes);
      store_matrices(lanes, warp[0].argument, pending.kind == Collective::store_transposed_matrices);
    } else {
      const MatrixRow* lanes[32];
      parts(lanes);
      load_matrices(lanes, warp[0].argument, pending.kind == Collective::load_transposed_matrices);
    }
    return;
  }

  uint64_t common = 0;
  const uint64_t first_value = warp[__builtin_ctz(mask)].value;
  switch (pending.kind) {
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
      for (unsigned lanes = mask & (mask - 1); lanes != 0; lanes &= lanes - 1)
        common = combine(pending.kind, common, warp[__builtin_ctz(lanes)].value);
    }
  }
  each([&](unsigned i) { warp[i].result = common; });
}

}  // namespace cugen
