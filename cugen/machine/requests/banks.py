"""Bank conflicts: the lanes of a warp that access different words of one bank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cugen.machine import Target
from cugen.machine.requests.warp import WARP_SIZE, WORD_BYTES, Lanes, active

BANKS = 32  # of shared memory from 2.0 on, as many as lanes of a warp (CUDA programming guide)
BANK_BYTES = 4
WAVEFRONT_BYTES = BANKS * BANK_BYTES  # a word of each bank: what shared memory moves in a cycle


@dataclass(frozen=True, slots=True)
class BankConflict:
    """Two lanes that need separate passes.

    degree: distinct words requested from the bank (aligned runs of 64 words, or pairs, with 64-bit banks), or lanes if
    both access the same word.
    """

    lanes: tuple[int, int]
    words: tuple[int, int]  # 4-byte words, from the start of the array
    bank: int
    degree: int


def bank_words(target: Target, bank_bytes: int) -> int:
    """Bank width in 4-byte words."""
    return bank_bytes // WORD_BYTES if target.shared_rule == "double_words" else 1


def bank_of(word: int, target: Target, bank_bytes: int) -> int:
    return word // bank_words(target, bank_bytes) % target.banks


def distinct_words(lanes: Lanes, width: int) -> tuple[int, ...]:
    """Distinct 4-byte words accessed by the warp, ascending."""
    indices = {a // WORD_BYTES + offset for a in active(lanes) for offset in range(max(1, width // WORD_BYTES))}
    return tuple(sorted(indices))


def worst_conflict(
    lanes: Lanes, width: int, target: Target, bank_bytes: int, kind: str = "load"
) -> BankConflict | None:
    """Conflict of the highest degree, with the first two lanes of it; None without conflicts."""
    worst: BankConflict | None = None
    for group in _groups(lanes, width, target):
        banks: dict[int, dict[int, tuple[int, int]]] = {}
        for lane, word in group:
            bank = bank_of(word, target, bank_bytes)
            banks.setdefault(bank, {}).setdefault(_unit(word, lane, target, bank_bytes), (lane, word))
        for bank, units in banks.items():
            if len(units) > max(1, worst.degree if worst else 0):
                (a, first), (b, second) = list(units.values())[:2]
                worst = BankConflict((a, b), (first, second), bank, len(units))
    return worst or _without_broadcast(kind, lanes, width, target)


def _unit(word: int, lane: int, target: Target, bank_bytes: int) -> int:
    """Index of the unit that a bank broadcasts in one pass."""
    if target.shared_rule == "double_words":
        return word // 2 if bank_bytes == 8 else word // (2 * target.banks)
    return word


def _groups(lanes: Lanes, width: int, target: Target) -> Iterator[list[tuple[int, int]]]:
    """(lane, word) pairs of each phase of the request; lanes of different phases never conflict."""
    count = max(1, width // WORD_BYTES)
    if target.shared_rule == "half_warps":
        parts = [(start, 16, [offset]) for start in (0, 16) for offset in range(count)]
    elif target.shared_rule == "double_words":
        size = 16 if width == 16 else WARP_SIZE
        parts = [(start, size, list(range(count))) for start in range(0, WARP_SIZE, size)]
    else:
        size = WARP_SIZE * WORD_BYTES // max(WORD_BYTES, width)
        parts = [(start, size, list(range(count))) for start in range(0, WARP_SIZE, size)]
    for start, size, offsets in parts:
        yield [
            (lane, address // WORD_BYTES + offset)
            for lane, address in enumerate(lanes[start : start + size], start)
            if address is not None
            for offset in offsets
        ]


def _without_broadcast(kind: str, lanes: Lanes, width: int, target: Target) -> BankConflict | None:
    """Conflicts of 1.x, which broadcasts one word per pass and serialises the lanes of any other shared word."""
    if target.shared_rule != "half_warps" or (kind == "store" and width >= WORD_BYTES):
        return None
    worst: BankConflict | None = None
    for group in _groups(lanes, width, target):
        sharers: dict[int, list[int]] = {}
        for lane, word in group:
            sharers.setdefault(word, []).append(lane)
        for word, lanes_of_word in sharers.items():
            if len(lanes_of_word) > max(1, worst.degree if worst else 0) and (kind == "store" or len(sharers) > 1):
                worst = BankConflict(
                    (lanes_of_word[0], lanes_of_word[1]), (word, word), word % target.banks, len(lanes_of_word)
                )
    return worst
