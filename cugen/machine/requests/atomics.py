"""Shared memory atomics: wavefronts are the maximum lanes per bank, also on one word (counters of sm_90)."""

from __future__ import annotations

from cugen.machine import Target
from cugen.machine.requests.warp import (
    WARP_SIZE,
    WORD_BYTES,
    Lanes,
    WarpRequest,
    lane_groups,
    max_per_bank,
    words_touched,
)

UNMEASURED = "shared atomics were measured on sm_90 only, as 32-bit additions whose result is unused"


def request(width: int, lanes: Lanes, target: Target) -> WarpRequest:
    """Cost of an atomic operation whose result is unused; wider ones are split like stores."""
    groups = lane_groups(
        lanes,
        WARP_SIZE * WORD_BYTES // max(width, WORD_BYTES) if target.request_lanes == WARP_SIZE else target.request_lanes,
    )
    wavefronts = sum(max_per_bank(words_touched(group, width), target.banks) for group in groups)
    measured = target.measured and width == WORD_BYTES
    return WarpRequest(1, wavefronts, len(groups), assumption="" if measured else UNMEASURED)
