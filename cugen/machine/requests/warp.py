"""A warp's request and what it costs; the small vocabulary that the rules of the memory spaces share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

WARP = 32  # lanes
WORD = 4  # bytes
SECTOR = 32  # bytes

Lanes = tuple[int | None, ...]  # byte address of each lane; None where the lane is inactive


@dataclass(frozen=True, slots=True)
class WarpRequest:
    """What one instruction of one warp costs.

    `requests`: the pieces the hardware makes of the instruction before it looks at banks or segments.
    `wavefronts`: passes through shared memory, or (constant memory) through the constant cache; 0 for global memory.
    `ideal_wavefronts`: what the same lanes would cost if no two words lay in one bank, so what padding or a swizzle
    may reach; the lanes' own order (which of them share a word) is taken as given.
    `transactions`: (address, bytes) of each transaction with global memory, in the order the rule finds them.
    `sectors`: 32-byte units moved by those transactions, or written in shared memory by a 16-byte asynchronous copy.
    `ideal_sectors`: the units if the bytes asked for lay side by side, aligned.
    `assumption`: why the figures are not certain; empty where they follow from a document or a measurement.
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
        """Whether some part of the rule is neither published nor measured."""
        return bool(self.assumption)


def active(lanes: Lanes) -> list[int]:
    """The addresses of the active lanes, in lane order."""
    return [address for address in lanes if address is not None]


def parts(lanes: Lanes, size: int) -> list[Lanes]:
    """The warp in groups of `size` lanes; those without an active lane are left out."""
    groups = [lanes[start : start + size] for start in range(0, len(lanes), size)]
    return [group for group in groups if active(group)]


def words(lanes: Lanes, width: int) -> list[int]:
    """The 32-bit words that the active lanes touch, one entry for each lane and word."""
    count = max(1, width // WORD)
    return [address // WORD + place for address in active(lanes) for place in range(count)]


def degree(touched: Iterable[int], banks: int) -> int:
    """The largest number of distinct words in one bank; 0 for no words."""
    return busiest(sorted(set(touched)), banks)


def busiest(touched: Iterable[int], banks: int) -> int:
    """The largest number of entries in one bank, equal words counted each; 0 for none."""
    return max(Counter(word % banks for word in touched).values(), default=0)
