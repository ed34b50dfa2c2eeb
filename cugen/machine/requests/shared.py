"""Loads and stores in shared memory, by the rule of each generation.

Sources: CUDA programming guide 4.2, appendix F.3.3 (1.x), F.4.3 (2.x), F.5.3 (3.x); current programming guide, shared
memory of 5.0 and later, for 4 bytes per lane and less; counters of an sm_90 device for 8 and 16 bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from cugen.machine import Target
from cugen.machine.requests.warp import WORD, Lanes, WarpRequest, active, busiest, degree, parts, words

Degree = Callable[[Lanes], int]

WIDE_UNMEASURED = "8 and 16 bytes per lane are documented for no target from 5.0 on; measured on sm_90 only"
INACTIVE_LANES = (
    "128-bit loads with inactive lanes, at work in both half-warps, were seen to merge fewer quarter-warps than the "
    "rule says: at most one wavefront more for each half-warp on sm_90"
)
NARROW_STORES = "how 1.x serves stores of several lanes to parts of one word is not documented"
WIDE_KEPLER = "how 3.x splits accesses wider than a bank is not documented"


def request(kind: str, width: int, lanes: Lanes, target: Target, bank_bytes: int) -> WarpRequest:
    """The cost of a load or store of `width` bytes per lane."""
    if target.shared_rule == "half_warps":
        return _half_warps(kind, width, lanes, target)
    if target.shared_rule == "double_words":
        return _double_words(width, lanes, target, bank_bytes)
    if target.shared_rule == "ways":
        return _ways(width, lanes, target)
    return _phases(kind, width, lanes, target)


def _half_warps(kind: str, width: int, lanes: Lanes, target: Target) -> WarpRequest:
    halves = parts(lanes, target.request_lanes)
    count = max(1, width // WORD)
    wavefronts = 0
    assumption = ""
    for half in halves:
        for place in range(count):
            addresses = [address + place * WORD for address in active(half)]
            if kind == "load":
                wavefronts += _broadcasts([address // WORD for address in addresses], target.banks)
            else:
                # of several writes to one address one is done, so equal addresses are no conflict
                distinct = sorted(set(addresses))
                wavefronts += busiest([address // WORD for address in distinct], target.banks)
                if len({address // WORD for address in distinct}) < len(distinct):
                    assumption = NARROW_STORES
    requests = len(halves) * count
    return WarpRequest(requests, wavefronts, requests, assumption=assumption)


def _broadcasts(touched: list[int], banks: int) -> int:
    """Passes of a 1.x half-warp: each serves all readers of one word, and one lane in each other bank."""
    waiting = Counter(touched)
    passes = 0
    while waiting:
        passes += 1
        chosen = max(waiting, key=lambda word: (waiting[word], -word))
        del waiting[chosen]
        served = {chosen % banks}
        for word in sorted(waiting):
            if word % banks not in served:
                served.add(word % banks)
                waiting[word] -= 1
        waiting = +waiting
    return passes


def _ways(width: int, lanes: Lanes, target: Target) -> WarpRequest:
    def conflicts(group: Lanes) -> int:
        return degree(words(group, width), target.banks)

    if width < 8:
        return WarpRequest(1, conflicts(lanes), 1)
    if width == 8:
        halves = parts(lanes, 16)
        return WarpRequest(1, sum(map(conflicts, halves)), len(halves))
    # the guide gives the ways of the whole request: the worst quarter-warp's and one more
    return WarpRequest(1, 1 + max(map(conflicts, parts(lanes, 8))), 2)


def _double_words(width: int, lanes: Lanes, target: Target, bank_bytes: int) -> WarpRequest:
    """A bank delivers 64 bits: with 4-byte banks words w and w + 32 of one aligned run of 64, else an aligned pair."""

    def conflicts(group: Lanes) -> int:
        touched = words(group, width)
        if bank_bytes == 8:
            return degree((word // 2 for word in touched), target.banks)
        per_run = {(word // (2 * target.banks), word % target.banks) for word in touched}
        return max(Counter(bank for _, bank in per_run).values())

    groups = parts(lanes, 16 if width == 16 else 32)
    assumption = WIDE_KEPLER if width > bank_bytes else ""
    return WarpRequest(1, sum(map(conflicts, groups)), len(groups), assumption=assumption)


def _phases(kind: str, width: int, lanes: Lanes, target: Target) -> WarpRequest:
    def conflicts(group: Lanes) -> int:
        return degree(words(group, width), target.banks)

    def ideal(group: Lanes) -> int:
        return 1 if active(group) else 0

    if width < 8:
        return WarpRequest(1, conflicts(lanes), 1)
    assumption = "" if target.measured else WIDE_UNMEASURED
    if kind == "store":
        groups = parts(lanes, 256 // (2 * width))
        return WarpRequest(1, sum(map(conflicts, groups)), len(groups), assumption=assumption)
    groups = [lanes] if width == 8 else parts(lanes, 16)
    wavefronts = sum(_merged(group, conflicts) for group in groups)
    if not assumption and len(groups) == 2 and None in lanes and wavefronts < sum(map(conflicts, parts(lanes, 8))):
        assumption = INACTIVE_LANES
    return WarpRequest(1, wavefronts, sum(_merged(group, ideal) for group in groups), assumption=assumption)


def _merged(group: Lanes, conflicts: Degree) -> int:
    """The two halves of a group apart, or in one pass if neighbours read alike and no two words share a bank."""
    halves = parts(group, len(group) // 2)
    if (_equal_under(group, 1) or _equal_under(group, 2)) and conflicts(group) <= 1:
        return 1
    return sum(map(conflicts, halves))


def _equal_under(group: Lanes, mask: int) -> bool:
    """Whether lanes i and i ^ mask read the same address; an inactive lane agrees with any."""
    pairs = ((address, group[lane ^ mask]) for lane, address in enumerate(group))
    return all(own is None or other is None or own == other for own, other in pairs)
