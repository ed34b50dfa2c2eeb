"""cp.async: wavefronts of the shared memory writes (undocumented; counters of an sm_90 device).

Copies below 16 bytes go through L1, whose data banks are those of shared memory: reads from different words of one
bank conflict as writes to one bank do.
"""

from __future__ import annotations

from collections import defaultdict

from cugen.machine.requests.warp import (
    SECTOR_BYTES,
    WARP_SIZE,
    Lanes,
    WarpRequest,
    active,
    lane_groups,
    max_per_bank,
    words_touched,
)
from cugen.machine.target import Target

HALF_SECTOR_BYTES = SECTOR_BYTES // 2
L1_BYPASS_BYTES = HALF_SECTOR_BYTES  # bytes per lane of cp.async.cg, which bypasses L1
SECTORS_PER_LINE = 4  # one word in each of the 32 banks
LINE_BYTES = SECTORS_PER_LINE * SECTOR_BYTES

UNMEASURED = "asynchronous copies are undocumented; measured on sm_90 only"
OTHER_SOURCES = (
    "16-byte asynchronous copies were measured with one 128-byte line read per quarter-warp;"
    " other sources differ by up to 2 wavefronts"
)
INACTIVE_LANES = "asynchronous copies were measured with all lanes active"
SCATTERED = (
    "with bank conflicts on both sides of a copy, or equal source addresses, up to 5 more wavefronts were measured"
)
SAME_DESTINATION = "of lanes with one destination only the lowest is counted, as in 10 of 10 measurements"

Sources = tuple[int | None, ...]


def request(width: int, lanes: Lanes, target: Target, sources: Sources | None) -> WarpRequest:
    """Cost of copying `width` bytes per lane to the shared addresses `lanes`.

    sources: global addresses, default width·lane; below 16 bytes only their distances matter. ValueError if an active
    lane has none.
    """
    assumption = UNMEASURED if not target.measured else INACTIVE_LANES if None in lanes else ""
    if width < 16:
        size = WARP_SIZE if width == 4 else WARP_SIZE // 2
        groups = lane_groups(lanes, size)
        if sources is None:  # as a store, but equal words are counted once per lane
            wavefronts = sum(max_per_bank(words_touched(lane_group, width), target.banks) for lane_group in groups)
            return WarpRequest(1, wavefronts, len(groups), assumption=assumption)
        phases = [
            _bank_ranks(lanes[first : first + size], sources[first : first + size], width)
            for first in range(0, WARP_SIZE, size)
        ]
        reads_conflict = any(read for phase in phases for read, _ in phase)
        reads_shared = len(set(active(sources))) < len(active(sources))
        if reads_conflict and (reads_shared or any(written for phase in phases for _, written in phase)):
            assumption = assumption or SCATTERED
        wavefronts = sum(len({read + written for read, written in phase}) for phase in phases)
        return WarpRequest(1, wavefronts, len(groups), assumption=assumption)
    if sources is None:
        sources = tuple(HALF_SECTOR_BYTES * lane for lane in range(WARP_SIZE))
    else:
        assumption = assumption or _check_sources(sources, lanes)
    writers = _first_of_each(lanes)
    if len(active(writers)) < len(active(lanes)):
        assumption = assumption or SAME_DESTINATION
    wavefronts = sum(quarter_wavefronts(writers[q : q + 8], sources[q : q + 8]) for q in range(0, WARP_SIZE, 8))
    sectors = len({address // SECTOR_BYTES for address in active(writers)})
    ideal_sectors = -(-len(active(writers)) * HALF_SECTOR_BYTES // SECTOR_BYTES)
    return WarpRequest(
        1,
        wavefronts,
        len(lane_groups(writers, 8)),
        sectors=sectors,
        ideal_sectors=ideal_sectors,
        assumption=assumption,
    )


def are_sector_pairs(addresses: Sources) -> bool:
    """Whether each even lane and the next access both halves of one sector, or are both inactive."""
    pairs = zip(addresses[::2], addresses[1::2], strict=True)
    return all(
        (a is None and b is None)
        or (a is not None and b is not None and a // SECTOR_BYTES == b // SECTOR_BYTES and a != b)
        for a, b in pairs
    )


def _bank_ranks(lanes: Lanes, sources: Sources, width: int) -> list[tuple[int, int]]:
    """For each active lane: preceding units read from its bank, and preceding lanes that write to its bank."""
    banks = LINE_BYTES // width
    read: dict[int, list[int]] = {}
    written: dict[int, int] = {}
    ranks = []
    for lane, (address, source) in enumerate(zip(lanes, sources, strict=True)):
        if address is None:
            continue
        if source is None:
            raise ValueError(f"sources: lane {lane} is active and has none")
        units = read.setdefault(source // width % banks, [])
        if source // width not in units:
            units.append(source // width)
        bank = address // width % banks
        ranks.append((units.index(source // width), written.get(bank, 0)))
        written[bank] = written.get(bank, 0) + 1
    return ranks


def _check_sources(sources: Sources, lanes: Lanes) -> str:
    """Assumption for these sources; empty if each quarter-warp reads one line in order."""
    for lane, (source, address) in enumerate(zip(sources, lanes, strict=True)):
        if source is None and address is not None:
            raise ValueError(f"sources: lane {lane} is active and has none")
    quarters = [
        sources[first : first + LINE_BYTES // HALF_SECTOR_BYTES]
        for first in range(0, WARP_SIZE, LINE_BYTES // HALF_SECTOR_BYTES)
    ]
    return "" if all(map(_is_line, quarters)) else OTHER_SOURCES


def _is_line(sources: Sources) -> bool:
    first = sources[0]
    return (
        first is not None
        and first % LINE_BYTES == 0
        and sources == tuple(range(first, first + LINE_BYTES, HALF_SECTOR_BYTES))
    )


def _first_of_each(lanes: Lanes) -> Lanes:
    """Lanes with only the lowest lane of each address active."""
    first: dict[int, int] = {}
    for lane, address in enumerate(lanes):
        if address is not None:
            first.setdefault(address, lane)
    return tuple(
        address if address is not None and first[address] == lane else None for lane, address in enumerate(lanes)
    )


def quarter_wavefronts(lanes: Lanes, sources: Sources) -> int:
    """Wavefronts of a quarter-warp (8 lanes) of 16-byte copies.

    Half sectors with the same source and destination sector form one move. Moves share a wavefront if they agree in
    the source line, the destination line, the parity of the sector distance and the halves they move.
    """
    moves: defaultdict[tuple[int, int], set[tuple[int, int]]] = defaultdict(set)
    for address, source in zip(lanes, sources, strict=True):
        if address is not None and source is not None:
            halves = (source // HALF_SECTOR_BYTES % 2, address // HALF_SECTOR_BYTES % 2)
            moves[source // SECTOR_BYTES, address // SECTOR_BYTES].add(halves)
    return len(
        {
            (source // SECTORS_PER_LINE, target // SECTORS_PER_LINE, (target - source) % 2, frozenset(halves))
            for (source, target), halves in moves.items()
        }
    )
