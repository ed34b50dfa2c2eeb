"""Shared memory loads and stores: wavefronts by generation.

Sources: CUDA programming guide 4.2, appendix F.3.3 (1.x), F.4.3 (2.x), F.5.3 (3.x); current programming guide, shared
memory of 5.0 and later, for 4 bytes per lane and less; counters of an sm_90 device for 8 and 16 bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from cugen.machine import Target
from cugen.machine.requests.warp import (
    WORD_BYTES,
    Lanes,
    WarpRequest,
    active,
    conflict_degree,
    lane_groups,
    max_per_bank,
    words_touched,
)

Degree = Callable[[Lanes], int]

WIDE_UNMEASURED = "8 and 16 bytes per lane are undocumented from 5.0 on; measured on sm_90 only"
INACTIVE_LANES = (
    "128-bit loads with inactive lanes in both half-warps were measured to merge fewer quarter-warps than the rule: "
    "at most one more wavefront per half-warp on sm_90"
)
NARROW_STORES = "stores of several lanes to parts of one word are undocumented on 1.x"
WIDE_KEPLER = "the split of accesses wider than a bank is undocumented on 3.x"


def request(kind: str, width: int, lanes: Lanes, target: Target, bank_bytes: int) -> WarpRequest:
    """Cost of a load or store of `width` bytes per lane."""
    if target.shared_rule == "half_warps":
        return _half_warps(kind, width, lanes, target)
    if target.shared_rule == "double_words":
        return _double_words(width, lanes, target, bank_bytes)
    if target.shared_rule == "ways":
        return _ways(width, lanes, target)
    return _phases(kind, width, lanes, target)


def _half_warps(kind: str, width: int, lanes: Lanes, target: Target) -> WarpRequest:
    halves = lane_groups(lanes, target.request_lanes)
    count = max(1, width // WORD_BYTES)
    wavefronts = 0
    assumption = ""
    for half in halves:
        for offset in range(count):
            addresses = [address + offset * WORD_BYTES for address in active(half)]
            if kind == "load":
                wavefronts += _broadcasts([address // WORD_BYTES for address in addresses], target.banks)
            else:
                # one of several writes to an address takes effect, so equal addresses don't conflict
                distinct = sorted(set(addresses))
                wavefronts += max_per_bank([address // WORD_BYTES for address in distinct], target.banks)
                if len({address // WORD_BYTES for address in distinct}) < len(distinct):
                    assumption = NARROW_STORES
    requests = len(halves) * count
    return WarpRequest(requests, wavefronts, requests, assumption=assumption)


def _broadcasts(touched: list[int], banks: int) -> int:
    """Passes of a 1.x half-warp: each broadcasts one word, and serves one lane per further bank."""
    pending = Counter(touched)
    passes = 0
    while pending:
        passes += 1
        broadcast = max(pending, key=lambda word: (pending[word], -word))
        del pending[broadcast]
        served = {broadcast % banks}
        for word in sorted(pending):
            if word % banks not in served:
                served.add(word % banks)
                pending[word] -= 1
        pending = +pending
    return passes


def _ways(width: int, lanes: Lanes, target: Target) -> WarpRequest:
    def conflicts(group: Lanes) -> int:
        return conflict_degree(words_touched(group, width), target.banks)

    if width < 8:
        return WarpRequest(1, conflicts(lanes), 1)
    if width == 8:
        halves = lane_groups(lanes, 16)
        return WarpRequest(1, sum(map(conflicts, halves)), len(halves))
    # programming guide: the conflict degree of the worst quarter-warp, plus one
    return WarpRequest(1, 1 + max(map(conflicts, lane_groups(lanes, 8))), 2)


def _double_words(width: int, lanes: Lanes, target: Target, bank_bytes: int) -> WarpRequest:
    """64-bit banks: with 4-byte mode words w and w + 32 of an aligned run of 64 share a pass, else an aligned pair."""

    def conflicts(group: Lanes) -> int:
        touched = words_touched(group, width)
        if bank_bytes == 8:
            return conflict_degree((word // 2 for word in touched), target.banks)
        per_run = {(word // (2 * target.banks), word % target.banks) for word in touched}
        return max(Counter(bank for _, bank in per_run).values())

    groups = lane_groups(lanes, 16 if width == 16 else 32)
    assumption = WIDE_KEPLER if width > bank_bytes else ""
    return WarpRequest(1, sum(map(conflicts, groups)), len(groups), assumption=assumption)


def _phases(kind: str, width: int, lanes: Lanes, target: Target) -> WarpRequest:
    def conflicts(group: Lanes) -> int:
        return conflict_degree(words_touched(group, width), target.banks)

    def ideal(group: Lanes) -> int:
        return 1 if active(group) else 0

    if width < 8:
        return WarpRequest(1, conflicts(lanes), 1)
    assumption = "" if target.measured else WIDE_UNMEASURED
    if kind == "store":
        groups = lane_groups(lanes, 256 // (2 * width))
        return WarpRequest(1, sum(map(conflicts, groups)), len(groups), assumption=assumption)
    groups = [lanes] if width == 8 else lane_groups(lanes, 16)
    wavefronts = sum(_merged(group, conflicts) for group in groups)
    if (
        not assumption
        and len(groups) == 2
        and None in lanes
        and wavefronts < sum(map(conflicts, lane_groups(lanes, 8)))
    ):
        assumption = INACTIVE_LANES
    return WarpRequest(1, wavefronts, sum(_merged(group, ideal) for group in groups), assumption=assumption)


def _merged(group: Lanes, conflicts: Degree) -> int:
    """Wavefronts of two phases: one if adjacent lanes read equal addresses without bank conflicts, else their sum."""
    halves = lane_groups(group, len(group) // 2)
    if (_equal_under(group, 1) or _equal_under(group, 2)) and conflicts(group) <= 1:
        return 1
    return sum(map(conflicts, halves))


def _equal_under(group: Lanes, mask: int) -> bool:
    """Whether lanes i and i ^ mask read the same address; inactive lanes match any."""
    pairs = ((lane_address, group[lane ^ mask]) for lane, lane_address in enumerate(group))
    return all(address is None or partner is None or address == partner for address, partner in pairs)
