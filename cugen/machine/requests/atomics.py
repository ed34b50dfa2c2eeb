"""Atomic operations in shared memory: the busiest bank, lanes on one word counted each (counters of sm_90)."""

from __future__ import annotations

from cugen.machine import Target
from cugen.machine.requests.warp import WARP, WORD, Lanes, WarpRequest, busiest, parts, words

UNMEASURED = "shared atomics were measured on sm_90 only, as 32-bit additions without a result"


def request(width: int, lanes: Lanes, target: Target) -> WarpRequest:
    """The cost of an atomic operation whose result isn't used; wider ones are split as stores are."""
    groups = parts(lanes, WARP * WORD // max(width, WORD) if target.request_lanes == WARP else target.request_lanes)
    wavefronts = sum(busiest(words(group, width), target.banks) for group in groups)
    measured = target.measured and width == WORD
    return WarpRequest(1, wavefronts, len(groups), assumption="" if measured else UNMEASURED)
