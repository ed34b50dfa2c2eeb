"""Reasons for extra wavefronts of asynchronous copies: bank conflicts on the source or target side."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from cugen.analysis.totals.exact import Pattern
from cugen.machine.requests.async_copies import L1_BYPASS_BYTES, LINE_BYTES, Sources, quarter_wavefronts
from cugen.machine.requests.warp import WARP_SIZE, WORD_BYTES, Lanes

QUARTER = LINE_BYTES // L1_BYPASS_BYTES


@dataclass(frozen=True, slots=True)
class Conflict:
    """First two lanes of a copy's worst bank conflict, and its degree."""

    lanes: tuple[int, int]
    count: int


def worst_conflict(addresses: Sources, width: int, *, merged: bool) -> Conflict | None:
    """Worst bank conflict of a copy below 16 bytes, else None; `merged` if equal addresses are broadcast (reads)."""
    size = WARP_SIZE * WORD_BYTES // width
    worst: Conflict | None = None
    for start in range(0, WARP_SIZE, size):
        banks: defaultdict[int, dict[int, int]] = defaultdict(dict)
        for lane, address in enumerate(addresses[start : start + size], start):
            if address is not None:
                unit = address // width
                banks[unit % (LINE_BYTES // width)].setdefault(unit if merged else lane, lane)
        for units in banks.values():
            if len(units) > max(1, worst.count if worst else 0):
                first, second = list(units.values())[:2]
                worst = Conflict((first, second), len(units))
    return worst


def lines_of_quarters(lanes: Lanes, sources: Sources) -> tuple[int, int, int]:
    """(first lane, source lines, target lines) of the quarter-warp of a 16-byte copy with the most wavefronts."""
    quarters = range(0, WARP_SIZE, QUARTER)
    worst = max(quarters, key=lambda q: quarter_wavefronts(lanes[q : q + 8], sources[q : q + 8]))
    pairs = zip(lanes[worst : worst + 8], sources[worst : worst + 8], strict=True)
    known = [(to, source) for to, source in pairs if to is not None and source is not None]
    return worst, len({source // LINE_BYTES for _, source in known}), len({to // LINE_BYTES for to, _ in known})


def cause(width: int, worst: Pattern, sources: Sources) -> str:
    """Short clause for a claim; empty if there is none."""
    if width == L1_BYPASS_BYTES:
        _, lines, rows = lines_of_quarters(worst.lanes, sources)
        return f"{QUARTER} lanes copy from {_count(lines, 'line')} to {rows}" if max(lines, rows) > 1 else ""
    read, written = _conflicts(width, worst, sources)
    if read and written:
        return f"lanes {_lane_pair(read)} read, {_lane_pair(written)} write one bank"
    if read:
        return f"lanes {_lane_pair(read)} copy from one bank"
    return f"lanes {_lane_pair(written)} copy to one bank" if written else ""


def conflict_clause(width: int, worst: Pattern, sources: Sources) -> str:
    """Conflicting lanes and the degree of the conflict, in one or two clauses."""
    if width == L1_BYPASS_BYTES:
        first, lines, rows = lines_of_quarters(worst.lanes, sources)
        where = f"from {_count(lines, 'line')} of {LINE_BYTES} bytes to {_count(rows, 'line')} of shared memory"
        return f"lanes {first} to {first + QUARTER - 1} copy {where}"
    read, written = _conflicts(width, worst, sources)
    parts = []
    if read:
        a, b = read.lanes
        distance = abs((sources[b] or 0) - (sources[a] or 0))
        parts.append(
            f"lanes {a} and {b} copy from addresses {distance:,} bytes apart, in one L1 bank"
            f" ({read.count}-way conflict)"
        )
    if written:
        parts.append(f"lanes {_lane_pair(written)} write to one bank ({written.count}-way conflict)")
    return " and ".join(parts)


def _conflicts(width: int, worst: Pattern, sources: Sources) -> tuple[Conflict | None, Conflict | None]:
    """Bank conflicts of a narrow copy, on the source and on the target side."""
    lanes = worst.addresses()
    reading = tuple(None if address is None else source for address, source in zip(lanes, sources, strict=True))
    return worst_conflict(reading, width, merged=True), worst_conflict(lanes, width, merged=False)


def _lane_pair(conflict: Conflict) -> str:
    return f"{conflict.lanes[0]} and {conflict.lanes[1]}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
