"""Local memory: 32-bit words of the lanes are interleaved, so that lanes with equal addresses access one line.

Source: CUDA programming guide, device memory accesses, local memory ("consecutive 32-bit words are accessed by
consecutive thread IDs"). Local memory is cached in L1 wherever it has one.
"""

from __future__ import annotations

from cugen.machine import Target
from cugen.machine.requests import segments
from cugen.machine.requests.warp import WARP_SIZE, WORD_BYTES, Lanes, WarpRequest


def request(kind: str, width: int, lanes: Lanes, target: Target) -> WarpRequest:
    """Cost of an access; the addresses of the lanes are relative to each lane's own memory.

    Word w of lane l is at byte `(32 * w + l) * 4` of the warp's memory. ideal_sectors: those of equal addresses."""
    words = range(max(1, width // WORD_BYTES))
    costs = [segments.request(kind, WORD_BYTES, _interleaved(lanes, word), target, "l1") for word in words]
    uniform: Lanes = tuple(None if address is None else 0 for address in lanes)
    ideal = segments.request(kind, WORD_BYTES, _interleaved(uniform, 0), target, "l1")
    return WarpRequest(
        sum(cost.requests for cost in costs),
        transactions=tuple(transaction for cost in costs for transaction in cost.transactions),
        sectors=sum(cost.sectors for cost in costs),
        ideal_sectors=ideal.sectors * len(words),
        assumption=costs[0].assumption,
    )


def _interleaved(lanes: Lanes, word: int) -> Lanes:
    """Address of one word of each lane's element in the memory of the warp."""
    return tuple(
        None if address is None else ((address // WORD_BYTES + word) * WARP_SIZE + lane) * WORD_BYTES
        for lane, address in enumerate(lanes)
    )
