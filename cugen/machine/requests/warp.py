"""Cost of a warp's memory request, and lane helpers shared by the rules of the memory spaces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

WARP_SIZE = 32  # lanes
WORD_BYTES = 4  # bytes
SECTOR_BYTES = 32  # bytes

Lanes = tuple[int | None, ...]  # byte address of each lane; None where the lane is inactive


@dataclass(frozen=True, slots=True)
class WarpRequest:
    """Cost of one memory instruction of one warp.

    requests: requests that the instruction is split into, before bank conflicts and coalescing.
    wavefronts: passes through shared memory or, for constants, the constant cache; 0 for global memory.
    ideal_wavefronts: wavefronts of the same lanes without bank conflicts, which padding or a swizzle may reach; which
        lanes share a word is taken as given.
    transactions: (address, bytes) of each global memory transaction, in the order of the rule.
    sectors: 32-byte sectors of those transactions, or those written to shared memory by a 16-byte async copy.
    ideal_sectors: sectors if the requested bytes were contiguous and aligned.
    assumption: why the figures are uncertain; empty if documented or measured.
    """

    requests: int = 0
    wavefronts: int = 0
    ideal_wavefronts: int = 0
    transactions: tuple[tuple[int, int], ...] = ()
    sectors: int = 0
    ideal_sectors: int = 0
    assumption: str = ""

    @property
    def assumed(self) -> bool:
        """Whether part of the rule is neither documented nor measured."""
        return bool(self.assumption)


def active(lanes: Lanes) -> list[int]:
    """Addresses of the active lanes, in lane order."""
    return [address for address in lanes if address is not None]


def lane_groups(lanes: Lanes, size: int) -> list[Lanes]:
    """Consecutive groups of `size` lanes with at least one active lane."""
    groups = [lanes[start : start + size] for start in range(0, len(lanes), size)]
    return [group for group in groups if active(group)]


def words_touched(lanes: Lanes, width: int) -> list[int]:
    """32-bit words accessed by the active lanes, one entry per lane and word."""
    count = max(1, width // WORD_BYTES)
    return [address // WORD_BYTES + offset for address in active(lanes) for offset in range(count)]


def conflict_degree(touched: Iterable[int], banks: int) -> int:
    """Degree of the bank conflict: the maximum number of distinct words in one bank; 0 for no words."""
    return max_per_bank(sorted(set(touched)), banks)


def max_per_bank(touched: Iterable[int], banks: int) -> int:
    """Maximum number of words in one bank, duplicates included; 0 for none."""
    return max(Counter(word % banks for word in touched).values(), default=0)
