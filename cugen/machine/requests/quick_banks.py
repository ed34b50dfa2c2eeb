"""How many passes a warp's access to shared memory takes, on devices with 32 banks of 4 bytes."""

from __future__ import annotations

from collections.abc import Sequence

_BANKS = 32
_WORD = 4


def wavefronts(places: Sequence[int], width: int, kind: str) -> int:
    """For the lanes' places in bytes, each lane moving `width` of them.

    Accesses of 8 and 16 bytes go by halves and quarters of the warp; two parts of a load go at once where the lanes of
    each pair read one place."""
    parts = max(width // _WORD, 1)
    size = len(places) // parts
    groups = [places[start : start + size] for start in range(0, len(places), size)]
    if kind == "store" or parts == 1:
        return sum(_crowd(group, parts) for group in groups)
    total = 0
    for first, second in zip(groups[::2], groups[1::2], strict=True):
        both = [*first, *second]
        paired = any(all(both[lane] == both[lane ^ bit] for lane in range(len(both))) for bit in (1, 2))
        merged = paired and _crowd(both, parts) == 1
        total += 1 if merged else _crowd(first, parts) + _crowd(second, parts)
    return total


def _crowd(places: Sequence[int], parts: int) -> int:
    """The most words that one bank is asked for."""
    words = {place // _WORD + part for place in places for part in range(parts)}
    banks: dict[int, int] = {}
    for word in words:
        banks[word % _BANKS] = banks.get(word % _BANKS, 0) + 1
    return max(banks.values())
