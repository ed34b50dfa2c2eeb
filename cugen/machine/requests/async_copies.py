"""cp.async into shared memory: what its writes cost (counters of an sm_90 device; no document describes them).

Below 16 bytes a copy goes through L1, whose lines lie over the same banks: lanes that read different words of one bank
slow it down like those that write to one.
"""

from __future__ import annotations

from collections import defaultdict

from cugen.machine.requests.warp import SECTOR, WARP, Lanes, WarpRequest, active, busiest, parts, words
from cugen.machine.target import Target

HALF = SECTOR // 2

WIDE = HALF  # bytes per lane from which on a copy passes L1 by

ROW_SECTORS = 4  # a row of 32 banks

LINE = ROW_SECTORS * SECTOR

UNMEASURED = "asynchronous copies are documented for no target; measured on sm_90 only"

OTHER_SOURCES = (
    "16-byte asynchronous copies cost what was measured where each quarter of a warp reads a line of 128 bytes;"
    " elsewhere up to 2 more or less"
)

INACTIVE_LANES = "asynchronous copies were measured with all lanes active"

SCATTERED = (
    "where lanes meet in banks on both sides of a copy, or read alike, scattered ones cost up to 5 more as measured"
)

SAME_DESTINATION = "of lanes that copy to one destination the lowest alone is taken to count: so in 10 of 10 measured"

Sources = tuple[int | None, ...]


def request(width: int, lanes: Lanes, target: Target, sources: Sources | None) -> WarpRequest:
    """The cost of copying `width` bytes per lane to the shared addresses `lanes`.

    It depends on the global addresses `sources` too, below 16 bytes only on their distances; None stands for
    width·lane.
    ValueError if an active lane has no source.
    """
    assumption = UNMEASURED if not target.measured else INACTIVE_LANES if None in lanes else ""
    if width < 16:
        size = WARP if width == 4 else WARP // 2
        groups = parts(lanes, size)
        if sources is None:  # as a store, but lanes that write the same word are counted each
            wavefronts = sum(busiest(words(group, width), target.banks) for group in groups)
            return WarpRequest(1, wavefronts, len(groups), assumption=assumption)
        halves = [_rounds(lanes[at : at + size], sources[at : at + size], width) for at in range(0, WARP, size)]
        apart = any(read for half in halves for read, _ in half)
        together = len(set(active(sources))) < len(active(sources))
        if apart and (together or any(written for half in halves for _, written in half)):
            assumption = assumption or SCATTERED
        wavefronts = sum(len({read + written for read, written in half}) for half in halves)
        return WarpRequest(1, wavefronts, len(groups), assumption=assumption)
    if sources is None:
        sources = tuple(HALF * lane for lane in range(WARP))
    else:
        assumption = assumption or _check_sources(sources, lanes)
    winners = _first_of_each(lanes)
    if len(active(winners)) < len(active(lanes)):
        assumption = assumption or SAME_DESTINATION
    wavefronts = sum(quarter_wavefronts(winners[q : q + 8], sources[q : q + 8]) for q in range(0, WARP, 8))
    sectors = len({address // SECTOR for address in active(winners)})
    ideal_sectors = -(-len(active(winners)) * HALF // SECTOR)
    return WarpRequest(
        1,
        wavefronts,
        len(parts(winners, 8)),
        sectors=sectors,
        ideal_sectors=ideal_sectors,
        assumption=assumption,
    )


def in_pairs(addresses: Sources) -> bool:
    """Whether each even lane and the next one share a sector, or idle together."""
    pairs = zip(addresses[::2], addresses[1::2], strict=True)
    return all(
        (a is None and b is None) or (a is not None and b is not None and a // SECTOR == b // SECTOR and a != b)
        for a, b in pairs
    )


def _rounds(lanes: Lanes, sources: Sources, width: int) -> list[tuple[int, int]]:
    """How many lanes before each active one read another unit of its bank, and how many write to its bank."""
    banks = LINE // width
    read: dict[int, list[int]] = {}
    written: dict[int, int] = {}
    found = []
    for lane, (address, source) in enumerate(zip(lanes, sources, strict=True)):
        if address is None:
            continue
        if source is None:
            raise ValueError(f"sources: lane {lane} is active and has none")
        units = read.setdefault(source // width % banks, [])
        if source // width not in units:
            units.append(source // width)
        bank = address // width % banks
        found.append((units.index(source // width), written.get(bank, 0)))
        written[bank] = written.get(bank, 0) + 1
    return found


def _check_sources(sources: Sources, lanes: Lanes) -> str:
    """Why these sources make the figures uncertain; empty where each quarter of the warp reads a line in order."""
    for lane, (source, address) in enumerate(zip(sources, lanes, strict=True)):
        if source is None and address is not None:
            raise ValueError(f"sources: lane {lane} is active and has none")
    quarters = [sources[at : at + LINE // HALF] for at in range(0, WARP, LINE // HALF)]
    return "" if all(map(_is_line, quarters)) else OTHER_SOURCES


def _is_line(sources: Sources) -> bool:
    first = sources[0]
    return first is not None and first % LINE == 0 and sources == tuple(range(first, first + LINE, HALF))


def _first_of_each(lanes: Lanes) -> Lanes:
    first: dict[int, int] = {}
    for lane, address in enumerate(lanes):
        if address is not None:
            first.setdefault(address, lane)
    return tuple(
        address if address is not None and first[address] == lane else None for lane, address in enumerate(lanes)
    )


def quarter_wavefronts(lanes: Lanes, sources: Sources) -> int:
    """Wavefronts of eight lanes.

    The halves that move from one source sector to one destination sector move together; such moves share a wavefront
    if they agree in the source's line, in the row of banks, in the parity of the sectors' distance and in which halves
    move where.
    """
    moves: defaultdict[tuple[int, int], set[tuple[int, int]]] = defaultdict(set)
    for address, source in zip(lanes, sources, strict=True):
        if address is not None and source is not None:
            halves = (source // HALF % 2, address // HALF % 2)
            moves[source // SECTOR, address // SECTOR].add(halves)
    return len(
        {
            (source // ROW_SECTORS, to // ROW_SECTORS, (to - source) % 2, frozenset(halves))
            for (source, to), halves in moves.items()
        }
    )
