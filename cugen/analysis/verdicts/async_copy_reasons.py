"""Why an asynchronous copy takes more wavefronts than its ideal: what its lanes meet in, on either side."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from cugen.analysis.totals.exact import Pattern
from cugen.machine.requests.async_copies import L1_BYPASS_BYTES, LINE_BYTES, Sources, quarter_wavefronts
from cugen.machine.requests.warp import WARP_SIZE, WORD_BYTES, Lanes

QUARTER = LINE_BYTES // L1_BYPASS_BYTES


@dataclass(frozen=True, slots=True)
class Crowd:
    """The first two lanes of those that meet in the bank that most of a copy's lanes crowd, and how many compete."""

    lanes: tuple[int, int]
    count: int


def crowded(addresses: Sources, width: int, *, merged: bool) -> Crowd | None:
    """Which lanes of a copy below 16 bytes meet in a bank; None where none do. Where `merged`, as on the side that is
    read, lanes with one address are served together."""
    size = WARP_SIZE * WORD_BYTES // width
    best: Crowd | None = None
    for at in range(0, WARP_SIZE, size):
        banks: defaultdict[int, dict[int, int]] = defaultdict(dict)
        for lane, address in enumerate(addresses[at : at + size], at):
            if address is not None:
                unit = address // width
                banks[unit % (LINE_BYTES // width)].setdefault(unit if merged else lane, lane)
        for units in banks.values():
            if len(units) > max(1, best.count if best else 0):
                first, second = list(units.values())[:2]
                best = Crowd((first, second), len(units))
    return best


def lines_of_quarters(lanes: Lanes, sources: Sources) -> tuple[int, int, int]:
    """(first lane, lines read, rows of banks written) of the quarter of a 16-byte copy that takes most wavefronts."""
    quarters = range(0, WARP_SIZE, QUARTER)
    worst = max(quarters, key=lambda q: quarter_wavefronts(lanes[q : q + 8], sources[q : q + 8]))
    pairs = zip(lanes[worst : worst + 8], sources[worst : worst + 8], strict=True)
    known = [(to, source) for to, source in pairs if to is not None and source is not None]
    return worst, len({source // LINE_BYTES for _, source in known}), len({to // LINE_BYTES for to, _ in known})


def cause(width: int, worst: Pattern, sources: Sources) -> str:
    """One clause for a claim; empty where none says it shortly."""
    if width == L1_BYPASS_BYTES:
        _, lines, rows = lines_of_quarters(worst.lanes, sources)
        return f"{QUARTER} lanes copy from {_count(lines, 'line')} to {rows}" if max(lines, rows) > 1 else ""
    read, written = _meetings(width, worst, sources)
    if read and written:
        return f"lanes {_two(read)} read, {_two(written)} write one bank"
    if read:
        return f"lanes {_two(read)} copy from one bank"
    return f"lanes {_two(written)} copy to one bank" if written else ""


def meeting(width: int, worst: Pattern, sources: Sources) -> str:
    """Which lanes meet, and how many, over one or two clauses."""
    if width == L1_BYPASS_BYTES:
        first, lines, rows = lines_of_quarters(worst.lanes, sources)
        where = f"from {_count(lines, 'line')} of {LINE_BYTES} bytes to {_count(rows, 'row')} of banks"
        return f"lanes {first} to {first + QUARTER - 1} copy {where}"
    read, written = _meetings(width, worst, sources)
    parts = []
    if read:
        a, b = read.lanes
        apart = abs((sources[b] or 0) - (sources[a] or 0))
        parts.append(
            f"lanes {a} and {b} copy from places {apart:,} bytes apart, which lie over one bank in L1,"
            f" for which {read.count} such compete"
        )
    if written:
        parts.append(f"lanes {_two(written)} write to one bank, for which {written.count} lanes compete")
    return " and ".join(parts)


def _meetings(width: int, worst: Pattern, sources: Sources) -> tuple[Crowd | None, Crowd | None]:
    """Which lanes of a narrow copy meet where it reads, and where it writes."""
    lanes = worst.addresses()
    reading = tuple(None if address is None else source for address, source in zip(lanes, sources, strict=True))
    return crowded(reading, width, merged=True), crowded(lanes, width, merged=False)


def _two(crowd: Crowd) -> str:
    return f"{crowd.lanes[0]} and {crowd.lanes[1]}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
