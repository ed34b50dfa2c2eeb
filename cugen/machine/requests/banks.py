"""Which lanes of a warp meet in a bank: the evidence beside a count of wavefronts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cugen.machine import Target
from cugen.machine.requests.warp import WARP, WORD, Lanes, active


@dataclass(frozen=True, slots=True)
class Collision:
    """Two lanes that one pass can't serve. `crowd` counts what the bank is asked for at once: distinct words (runs of
    64 words or pairs of words where banks deliver 64 bits), or lanes, where both ask for one word."""

    lanes: tuple[int, int]
    words: tuple[int, int]  # 4-byte words, from the start of the array
    bank: int
    crowd: int


def bank_words(target: Target, bank_bytes: int) -> int:
    """How wide a bank is, in 4-byte words."""
    return bank_bytes // WORD if target.shared_rule == "double_words" else 1


def bank_of(word: int, target: Target, bank_bytes: int) -> int:
    return word // bank_words(target, bank_bytes) % target.banks


def touched(lanes: Lanes, width: int) -> tuple[int, ...]:
    """The distinct words that the warp touches, ascending."""
    found = {a // WORD + place for a in active(lanes) for place in range(max(1, width // WORD))}
    return tuple(sorted(found))


def collision(lanes: Lanes, width: int, target: Target, bank_bytes: int, kind: str = "load") -> Collision | None:
    """The bank that most of a request crowd, with the first two lanes that differ there; None where none meet."""
    best: Collision | None = None
    for group in _groups(lanes, width, target):
        banks: dict[int, dict[int, tuple[int, int]]] = {}
        for lane, word in group:
            bank = bank_of(word, target, bank_bytes)
            banks.setdefault(bank, {}).setdefault(_unit(word, lane, target, bank_bytes), (lane, word))
        for bank, units in banks.items():
            if len(units) > max(1, best.crowd if best else 0):
                (a, first), (b, second) = list(units.values())[:2]
                best = Collision((a, b), (first, second), bank, len(units))
    return best or _without_broadcast(kind, lanes, width, target)


def _unit(word: int, lane: int, target: Target, bank_bytes: int) -> int:
    """What a bank delivers to any number of lanes in one pass."""
    if target.shared_rule == "double_words":
        return word // 2 if bank_bytes == 8 else word // (2 * target.banks)
    return word


def _groups(lanes: Lanes, width: int, target: Target) -> Iterator[list[tuple[int, int]]]:
    """(lane, word) of those that compete with each other, for each part of the request."""
    count = max(1, width // WORD)
    if target.shared_rule == "half_warps":
        parts = [(start, 16, [place]) for start in (0, 16) for place in range(count)]
    elif target.shared_rule == "double_words":
        size = 16 if width == 16 else WARP
        parts = [(start, size, list(range(count))) for start in range(0, WARP, size)]
    else:
        size = WARP * WORD // max(WORD, width)
        parts = [(start, size, list(range(count))) for start in range(0, WARP, size)]
    for start, size, places in parts:
        yield [
            (lane, address // WORD + place)
            for lane, address in enumerate(lanes[start : start + size], start)
            if address is not None
            for place in places
        ]


def _without_broadcast(kind: str, lanes: Lanes, width: int, target: Target) -> Collision | None:
    """On 1.x only one word of a pass is broadcast: lanes that share any other one wait for each other, as do lanes that
    write parts of a word."""
    if target.shared_rule != "half_warps" or (kind == "store" and width >= WORD):
        return None
    best: Collision | None = None
    for group in _groups(lanes, width, target):
        sharers: dict[int, list[int]] = {}
        for lane, word in group:
            sharers.setdefault(word, []).append(lane)
        for word, found in sharers.items():
            if len(found) > max(1, best.crowd if best else 0) and (kind == "store" or len(sharers) > 1):
                best = Collision((found[0], found[1]), (word, word), word % target.banks, len(found))
    return best
