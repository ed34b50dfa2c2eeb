"""The choice among variants that compute the same: modelled traffic over what the resident blocks can sustain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BlockCost:
    """What a block of a kernel moves, and what it has in flight.

    moved: bytes of the sectors that its warps request from L2, on average over the grid at typical sizes. in_flight:
    bytes that it waits for at once. saturating: bytes in flight on an SM from which on more don't help.
    """

    moved: float
    in_flight: float
    saturating: float

    def time(self, blocks: int, blocks_per_sm: int, sms: int) -> float:
        """Time of a grid of so many blocks, in units that are equal for all variants: bytes over bytes in flight."""
        if not blocks:
            return 0.0
        resident = min(blocks, blocks_per_sm * sms)
        if not resident:
            return math.inf
        return blocks * self.moved / min(resident * self.in_flight / sms, self.saturating)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A variant at the sizes of a call, on a device that it fits."""

    cost: BlockCost
    blocks: int  # of the grid
    blocks_per_sm: int

    def time(self, sms: int) -> float:
        return self.cost.time(self.blocks, self.blocks_per_sm, sms)


def fastest(candidates: Sequence[Candidate], sms: int) -> int:
    """Index of the candidate that takes least by the model, of equal ones the first. The launcher of the variants'
    `<name>.h` makes the same choice."""
    times = [candidate.time(sms) for candidate in candidates]
    return times.index(min(times))
