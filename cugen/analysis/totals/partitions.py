"""How the addresses of a wave of blocks are spread over the partitions of device memory, on 1.x.

The blocks of a wave run at the same time. Where their addresses are a multiple of all partitions apart, they wait for
one of them: partition camping. Another pitch of the array spreads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from cugen.analysis.totals.affine import affine_form, evaluator
from cugen.analysis.totals.sites import BLOCK, THREAD, Site, sites
from cugen.machine import Target
from cugen.machine.dram import PARTITION_BYTES, memory_partitions
from cugen.machine.requests.request import warp_request
from cugen.machine.requests.warp import WARP_SIZE
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access
from cugen.plan.symbols import Integer, integer

CAMPING = 2.0  # busiest partition ÷ even share, from which on it is advised to change the pitch (heuristic)
_HALF_WARP_BYTES = 64  # rows that begin at multiples of it stay coalesced
_INACTIVE = -1
_OPERATORS = {"<": np.less, "==": np.equal, "!=": np.not_equal}

Lanes = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class PartitionSpread:
    """Bytes that the first wave of blocks moves by an access, in each partition, at the first iteration of its loops.

    steps: bytes from a block to the next one along each axis of the grid, by the name of the index. pitch: elements
    from row to row that would spread them, if they aren't spread and a pitch does that, else 0.
    """

    access: Access
    moved: tuple[int, ...]
    steps: tuple[tuple[str, int], ...]
    pitch: int = 0

    @property
    def crowding(self) -> float:
        """Bytes of the busiest partition ÷ those of an even spread."""
        return max(self.moved) * len(self.moved) / sum(self.moved)


@dataclass(frozen=True, slots=True)
class Wave:
    """The first `blocks` of a grid, x fastest, with the threads of each."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    blocks: int

    def values(self) -> dict[Any, Any]:
        """Block and thread indices, along two axes."""
        return {
            **dict(zip(BLOCK, _indices(self.blocks, self.grid, np.s_[:, None]), strict=True)),
            **dict(zip(THREAD, _indices(int(np.prod(self.block)), self.block, np.s_[None, :]), strict=True)),
        }


def partition_spreads(
    kernel: Kernel, target: Target, params: Mapping[str, int], wave: Wave
) -> tuple[PartitionSpread, ...]:
    """One for each access to device memory whose addresses don't depend on data; none from 2.0 on."""
    if not memory_partitions(target):
        return ()
    counts = (_Count(site, target, wave) for site in sites(kernel, params) if _is_counted(site, target))
    return tuple(count.spread() for count in counts if count.active.any())


def _is_counted(site: Site, target: Target) -> bool:
    names = {*THREAD, *(counter.symbol for counter in site.counters)}
    is_global = site.access.array.space == "global" and site.access.kind in target.global_kinds
    return is_global and not site.opaque and site.offset.free_symbols <= names


class _Count:
    """Counts the bytes of one access by partition."""

    def __init__(self, site: Site, target: Target, wave: Wave) -> None:
        self.site, self.target, self.wave = site, target, wave
        self.partitions = memory_partitions(target)
        self.values = {**{counter.symbol: 0 for counter in site.counters}, **wave.values()}
        self.ranges = {
            **{counter.symbol: (0, counter.count - 1) for counter in site.counters},
            **{t: (0, size - 1) for t, size in zip(THREAD, wave.block, strict=True)},
        }
        self.active = self._active()

    def spread(self) -> PartitionSpread:
        offset, access = self.site.offset, self.site.access
        coefficients = affine_form(offset, tuple(counter.symbol for counter in self.site.counters)).coefficients
        steps = tuple((str(b), access.array.dtype.bytes * coefficients[b]) for b in BLOCK if b in coefficients)
        plain = PartitionSpread(access, self.moved(offset), steps)
        return replace(plain, pitch=self._pitch()) if plain.crowding >= CAMPING else plain

    def moved(self, offset: Integer) -> tuple[int, ...]:
        """Bytes of the transactions by partition."""
        access = self.site.access
        addresses = access.array.dtype.bytes * evaluator(offset, self.ranges)(self.values)
        shape = (self.wave.blocks, int(np.prod(self.wave.block)))
        counts = [0] * self.partitions
        width = access.array.dtype.bytes * access.width
        for first, lanes, times in _warps(np.broadcast_to(addresses, shape), self.active):
            for start, size in _transactions(access.kind, width, lanes, self.target):
                counts[(first + start // PARTITION_BYTES) % self.partitions] += size * times
        return tuple(counts)

    def _active(self) -> Any:
        """Which threads pass all guards."""
        active = np.ones((self.wave.blocks, int(np.prod(self.wave.block))), np.bool_)
        for predicate in self.site.predicates:
            holds = np.ones((), np.bool_)
            for difference, operator in predicate.terms:
                holds = holds & _OPERATORS[operator](evaluator(difference, self.ranges)(self.values), 0)
            active = active & (~holds if predicate.negated else holds)
        return active

    def _pitch(self) -> int:
        """The smallest of the pitches that spread best, at multiples of a half-warp; 0 if none keeps below CAMPING, or
        the array is so small that it isn't in all partitions."""
        access, array = self.site.access, self.site.access.array
        extents = [extent.xreplace(dict(self.site.definitions)) for extent in (*array.strides, *array.shape)]
        if len(array.strides) != 2 or extents[1] != 1 or not (extents[0].is_Integer and extents[2].is_Integer):
            return 0
        pitch, _, rows, _ = map(int, extents)
        unit = max(_HALF_WARP_BYTES // array.dtype.bytes, 1)
        is_peeled = access.width > 1 and pitch % unit  # its first vector is where this pitch is aligned
        if is_peeled or rows * pitch * array.dtype.bytes < self.partitions * PARTITION_BYTES:
            return 0
        first = pitch // unit
        tried = self.partitions * PARTITION_BYTES // _HALF_WARP_BYTES  # after which the partitions repeat
        pitches = [(first + more) * unit for more in range(1, tried + 1)]
        best = min(pitches, key=lambda pitch: (self._crowding(pitch), pitch))
        return best if self._crowding(best) < CAMPING else 0

    def _crowding(self, pitch: int) -> float:
        access = self.site.access
        pitched = replace(access, array=replace(access.array, strides=(integer(pitch), integer(1))))
        return PartitionSpread(pitched, self.moved(self.site.offset_of(pitched)), ()).crowding


def _indices(count: int, extents: Iterable[int], axis: Any) -> Iterator[Any]:
    """Indices along x, y and z of so many blocks or threads, x fastest."""
    left = np.arange(count)
    for extent in extents:
        yield (left % extent)[axis]
        left = left // extent


def _warps(addresses: Any, active: Any) -> Iterator[tuple[int, Lanes, int]]:
    """The chunk of memory, as long as a partition's, in which warps begin, the lanes' addresses from there on, and how
    many such warps there are."""
    missing = -addresses.shape[1] % WARP_SIZE
    lanes, taken = (np.pad(each, ((0, 0), (0, missing))).reshape(-1, WARP_SIZE) for each in (addresses, active))
    runs = taken.any(axis=1)
    lanes, taken = lanes[runs], taken[runs]
    first = np.where(taken, lanes, np.iinfo(np.int64).max).min(axis=1) // PARTITION_BYTES
    shifted = np.where(taken, lanes - PARTITION_BYTES * first[:, None], _INACTIVE)
    rows, counts = np.unique(np.column_stack((first, shifted)), axis=0, return_counts=True)
    for (chunk, *offsets), count in zip(rows.tolist(), counts.tolist(), strict=True):
        yield chunk, tuple(None if offset == _INACTIVE else offset for offset in offsets), count


@lru_cache(maxsize=4096)
def _transactions(kind: str, width: int, lanes: Lanes, target: Target) -> tuple[tuple[int, int], ...]:
    """(address, bytes) of the transactions of a warp."""
    return tuple(warp_request("global", kind, width, lanes, target).transactions)
