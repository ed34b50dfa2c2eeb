"""cp.async into shared memory: what its writes cost (counters of an sm_90 device; no document describes them)."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import sympy

from cugen.analysis.affine import compiled
from cugen.analysis.sites import THREAD
from cugen.analysis.warp import SECTOR, WARP, Lanes, WarpRequest, active, busiest, parts, words
from cugen.plan.symbols import Integer, integer
from cugen.targets import Target

HALF = SECTOR // 2
WIDE = HALF  # bytes per lane from which on a copy passes L1 by
ROW_SECTORS = 4  # a row of 32 banks

UNMEASURED = "asynchronous copies are documented for no target; measured on sm_90 only"
OTHER_SOURCES = "16-byte asynchronous copies were measured with lane i reading 16 bytes at 16·i"
INACTIVE_LANES = "asynchronous copies were measured with all lanes active"
SAME_DESTINATION = "of lanes that copy to one destination the lowest alone is taken to count: so in 10 of 10 measured"

Sources = tuple[int | None, ...]


def request(width: int, lanes: Lanes, target: Target, sources: Sources | None) -> WarpRequest:
    """The cost of copying `width` bytes per lane to the shared addresses `lanes`.

    At 16 bytes the copy passes L1 by and its cost depends on the global addresses `sources` too; None stands for
    16·lane.
    ValueError if an active lane has no source.
    """
    assumption = UNMEASURED if not target.measured else INACTIVE_LANES if None in lanes else ""
    if width < 16:
        # as a store, but lanes that write the same word are counted each
        groups = parts(lanes, WARP if width == 4 else WARP // 2)
        wavefronts = sum(busiest(words(group, width), target.banks) for group in groups)
        return WarpRequest(1, wavefronts, len(groups), assumption=assumption)
    if sources is None:
        sources = tuple(HALF * lane for lane in range(WARP))
    else:
        assumption = assumption or _check_sources(sources, lanes)
    winners = _first_of_each(lanes)
    if len(active(winners)) < len(active(lanes)):
        assumption = assumption or SAME_DESTINATION
    wavefronts = sum(_quarter(winners[q : q + 8], sources[q : q + 8]) for q in range(0, WARP, 8))
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


def side_by_side(source: Integer, block: tuple[int, int, int], element_bytes: int) -> bool:
    """Whether lane i of every warp copies the 16 bytes at 16·i from where its first lane does. `source` is an offset in
    elements over base variables."""
    linear = np.arange(block[0] * block[1] * block[2])
    places = (linear % block[0], linear // block[0] % block[1], linear // (block[0] * block[1]))
    moved = sympy.expand(source - source.xreplace(dict.fromkeys(THREAD, integer(0))))
    if moved.free_symbols - set(THREAD):
        return False
    addresses = compiled(moved)(dict(zip(THREAD, places, strict=True))) * element_bytes + 0 * linear
    return bool((addresses - addresses[linear // WARP * WARP] == WIDE * (linear % WARP)).all())


def _check_sources(sources: Sources, lanes: Lanes) -> str:
    """Why these sources make the figures uncertain; empty where they are as measured, from any aligned address on."""
    for lane, (source, address) in enumerate(zip(sources, lanes, strict=True)):
        if source is None and address is not None:
            raise ValueError(f"sources: lane {lane} is active and has none")
    first = sources[0]
    if first is None or first % (2 * SECTOR):
        return OTHER_SOURCES
    return "" if sources == tuple(first + HALF * lane for lane in range(WARP)) else OTHER_SOURCES


def _first_of_each(lanes: Lanes) -> Lanes:
    first: dict[int, int] = {}
    for lane, address in enumerate(lanes):
        if address is not None:
            first.setdefault(address, lane)
    return tuple(
        address if address is not None and first[address] == lane else None for lane, address in enumerate(lanes)
    )


def _quarter(lanes: Lanes, sources: Sources) -> int:
    """Wavefronts of eight lanes.

    The halves that move from one source sector to one destination sector move together; such moves share a wavefront
    if they agree in the row of banks, in the parity of the sectors' distance and in which halves move where.
    """
    moves: defaultdict[tuple[int, int], set[tuple[int, int]]] = defaultdict(set)
    for address, source in zip(lanes, sources, strict=True):
        if address is not None and source is not None:
            halves = (source // HALF % 2, address // HALF % 2)
            moves[source // SECTOR, address // SECTOR].add(halves)
    return len({(to // ROW_SECTORS, (to - source) % 2, frozenset(halves)) for (source, to), halves in moves.items()})
