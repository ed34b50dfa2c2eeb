"""How the blocks of a launch divide an output, and the threads of a block its tile of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np
import sympy
from numpy.typing import NDArray

from cugen.analysis.totals.affine import evaluator
from cugen.analysis.totals.sites import BLOCK, THREAD, Counter, Predicate, Site
from cugen.plan.kernel import Kernel
from cugen.plan.symbols import Integer, integer
from cugen.report.footprints import extents_of

_MAX_POINTS = 1 << 21  # stores that are evaluated

_MAX_OVERLAP = 2  # tiles over the extent
_LARGEST = np.iinfo(np.int64).max // 2
_STORES = (("store", "global"), ("tensor_store", "tensor"))
_COMPARED = {"<": np.less, "==": np.equal, "!=": np.not_equal}

Interval = tuple[int, int]  # from the first to below the second


@dataclass(frozen=True, slots=True)
class Axis:
    """One dimension of an output with its `extent`, and the intervals of the tiles along it, in order."""

    extent: int
    intervals: tuple[Interval, ...]

    @property
    def tile(self) -> int:
        """The extent of a whole tile."""
        return max(stop - start for start, stop in self.intervals)

    def is_at_edge(self, position: int) -> bool:
        """Whether a tile is cut off, or was moved inwards and overlaps the one before."""
        start, stop = self.intervals[position]
        return stop - start < self.tile or (position > 0 and self.intervals[position - 1][1] > start)


@dataclass(frozen=True, slots=True)
class OutputTiles:
    """The tiles of an output along its last dimensions; `planes` is the product of the others. An output of one
    dimension is one row. `owners` has the thread that stores each element of the first tile, -1 where none does; it is
    empty where TMA stores whole boxes."""

    array: str
    planes: int
    rows: Axis
    columns: Axis
    owners: NDArray[np.int64]

    @property
    def stored(self) -> int:
        """Elements of the first tile that threads store."""
        return int((self.owners >= 0).sum())

    @property
    def tiles(self) -> int:
        """Tiles of a plane."""
        return len(self.rows.intervals) * len(self.columns.intervals)

    @property
    def edge_tiles(self) -> int:
        """Tiles of a plane at its edge, smaller than the others or overlapping them."""
        inner = [sum(not a.is_at_edge(n) for n in range(len(a.intervals))) for a in (self.rows, self.columns)]
        return self.tiles - prod(inner)

    @property
    def elements_per_thread(self) -> int:
        """Elements of the first tile that a thread stores, at most."""
        return int(np.bincount(self.owners[self.owners >= 0]).max(initial=0))


@dataclass(frozen=True, slots=True)
class TilePart:
    """K-tiles of an output tile, from `begin` to below `end`, that a block computes."""

    tile: int
    begin: int
    end: int
    block: int


def tile_parts(kernel: Kernel, sites: Iterable[Site]) -> tuple[TilePart, ...]:
    """The parts of all output tiles, in order of tiles and k-tiles, where blocks share tiles (stream-K)."""
    units = kernel.work_units
    if units is None:
        return ()
    names = units.tile, units.k_tile_begin, units.k_tile_end
    site = next((site for site in sites if all(name in site.definitions for name in names)), None)
    if site is None:
        return ()
    exprs = [name.xreplace(site.definitions) for name in names]
    used = frozenset[sympy.Basic]().union(BLOCK[:1], *(expr.free_symbols for expr in exprs))
    counters = [counter for counter in site.counters if counter.symbol in used]
    if prod(counter.count for counter in counters) > _MAX_POINTS:
        return ()
    points = _Points((1, 1, 1), [], np.zeros(1, np.int64), counters, {})
    values = [points.value(expr).ravel().tolist() for expr in (*exprs, BLOCK[0])]
    parts = (TilePart(*numbers) for numbers in zip(*values, strict=True))
    return tuple(sorted((part for part in parts if part.begin < part.end), key=lambda part: (part.tile, part.begin)))


def output_tiles(kernel: Kernel, sites: Iterable[Site], walking: frozenset[int]) -> tuple[OutputTiles, ...]:
    """The tiles of each output of a launch, by the access that stores most of its elements; without outputs whose
    blocks store to no rectangles, or whose sizes are unknown. `walking`: the `tile_loops` of the kernel."""
    stores: dict[str, _Stores] = {}
    for site in sites:
        if (site.access.kind, site.access.array.space) in _STORES and not site.opaque:
            made, symbol = _Stores(kernel, site, walking), site.access.array.symbol
            if symbol not in stores or stores[symbol].per_block < made.per_block:
                stores[symbol] = made
    every = (made.tiles() for made in stores.values())
    return tuple(tiles for tiles in every if tiles is not None)


class _Stores:
    """The stores of a site: `outer` counters tell tiles apart, those of blocks and of loops that pass from tile to
    tile; `inner` ones are of the loops within a tile."""

    def __init__(self, kernel: Kernel, site: Site, walking: frozenset[int]) -> None:
        self.kernel, self.site = kernel, site
        self.outer = [counter for counter in site.counters if _distinguishes_tiles(counter, walking)]
        self.inner = [counter for counter in site.counters if counter not in self.outer]
        self.subscripts = [subscript.xreplace(site.definitions) for subscript in site.access.subscripts]
        self.shape = extents_of(site)
        self.per_block = kernel.threads * site.access.width * prod(counter.count for counter in self.inner)
        self.within = {*THREAD, *(counter.symbol for counter in self.inner)}

    def tiles(self) -> OutputTiles | None:
        if not self.subscripts or not all(extent.is_Integer for extent in self.shape):
            return None
        if any(counter.count < 1 for counter in self.site.counters) or self.per_block > _MAX_POINTS:
            return None
        extents = [int(extent) for extent in self.shape]
        displayed = range(max(0, len(extents) - 2), len(extents))
        intervals = self._intervals(displayed)
        if intervals is None or not all(intervals):
            return None
        axes = [Axis(extents[d], along) for d, along in zip(displayed, intervals, strict=True)]
        rows = axes[0] if len(axes) == 2 else Axis(1, ((0, 1),))
        owners = self._owners(displayed, rows, axes[-1])
        if owners is None:
            return None
        planes = prod(extents[: displayed.start])
        return OutputTiles(self.site.access.array.name, planes, rows, axes[-1], owners)

    def _intervals(self, displayed: range) -> list[tuple[Interval, ...]] | None:
        """The intervals of the tiles along each displayed dimension; None if they are too many, or no grid."""
        used = [[c for c in self.outer if c.symbol in self.subscripts[d].free_symbols] for d in displayed]
        is_joint = len(used) == 2 and any(counter in used[1] for counter in used[0])
        if is_joint:
            used = [[c for c in self.outer if c in used[0] or c in used[1]]] * 2
        chosen = [self._extremes(d, displayed) for d in displayed]
        if any(
            points.size * prod(c.count for c in counters) > _MAX_POINTS
            for points, counters in zip(chosen, used, strict=True)
        ):
            return None
        by_block = [
            self._along(d, points, counters) for d, points, counters in zip(displayed, chosen, used, strict=True)
        ]
        distinct = [sorted({interval for interval in each if interval is not None}) for each in by_block]
        pairs = {pair for pair in zip(*by_block, strict=True) if None not in pair} if is_joint else set()
        if is_joint and len(pairs) != prod(map(len, distinct)):
            return None
        for dimension, along in zip(displayed, distinct, strict=True):
            if sum(stop - start for start, stop in along) > _MAX_OVERLAP * int(self.shape[dimension]):
                return None  # blocks store to parts of several rows, whose bounds say little
        return [tuple(intervals) for intervals in distinct]

    def _extremes(self, dimension: int, displayed: range) -> NDArray[np.int64]:
        """The stores of a block, by their positions, that give its bounds along a dimension. Where blocks only shift
        subscripts and cut them off, one for each value of the subscript, with the least other one; otherwise all."""
        every = np.arange(self.kernel.threads * prod(counter.count for counter in self.inner))
        predicates = [p for p in self.site.predicates if not self._depends_on_block(p)]
        others = [p for p in self.site.predicates if p not in predicates]
        is_simple = self._is_shifted(self.subscripts[dimension]) and all(self._cuts_off(p, displayed) for p in others)
        if not is_simple:
            return every
        points = self._points(every, [], dict.fromkeys((counter.symbol for counter in self.outer), 0))
        (stores,) = points.active(predicates)
        values = {d: points.value(self.subscripts[d])[0][stores] for d in displayed}
        order = np.lexsort([values[d] for d in displayed if d != dimension] + [values[dimension]])
        _, first = np.unique(values[dimension][order], return_index=True)
        extremes: NDArray[np.int64] = every[stores][order][first]
        return extremes

    def _depends_on_block(self, predicate: Predicate) -> bool:
        outer = {counter.symbol for counter in self.outer}
        return any(difference.free_symbols & outer for difference, _ in predicate.terms)

    def _is_shifted(self, expr: Integer) -> bool:
        """Whether blocks add the same number to an expression for all threads and iterations."""
        first = expr.xreplace({counter.symbol: integer(0) for counter in self.outer})
        return not sympy.expand(expr - first).free_symbols & self.within

    def _cuts_off(self, predicate: Predicate, displayed: range) -> bool:
        """Whether a predicate is an upper bound of displayed subscripts."""
        return not predicate.negated and all(
            operator == "<"
            and any(not sympy.expand(difference - self.subscripts[d]).free_symbols & self.within for d in displayed)
            for difference, operator in predicate.terms
        )

    def _along(self, dimension: int, stores: NDArray[np.int64], counters: Sequence[Counter]) -> list[Interval | None]:
        """The interval of each combination of the counters; None for one that stores nothing."""
        points = self._points(stores, counters)
        active, first = points.active(self.site.predicates), points.value(self.subscripts[dimension])
        low = np.where(active, first, _LARGEST).min(axis=1)
        high = np.where(active, first, -_LARGEST).max(axis=1) + self._width(dimension)
        high = np.minimum(high, int(self.shape[dimension]))  # a box may be larger
        blocks = zip(np.logical_or.reduce(active, axis=1).tolist(), low.tolist(), high.tolist(), strict=True)
        return [(start, stop) if any_active else None for any_active, start, stop in blocks]

    def _owners(self, displayed: range, rows: Axis, columns: Axis) -> NDArray[np.int64] | None:
        """The threads that store the elements of the first tile; None if the first block stores nothing."""
        if self.site.access.array.tensor_map is not None:
            return np.empty((0, 0), dtype=np.int64)
        every = np.arange(self.kernel.threads * prod(counter.count for counter in self.inner))
        points = self._points(every, [], dict.fromkeys((counter.symbol for counter in self.outer), 0))
        active = points.active(self.site.predicates)
        if not active.any():
            return None
        first = [points.value(self.subscripts[d])[active] for d in displayed]
        row, column = first[0] if len(first) == 2 else np.zeros_like(first[-1]), first[-1]
        row, column, threads = row - row.min(), column - column.min(), points.threads[active]
        owners = np.full((rows.tile, columns.tile), -1, dtype=np.int64)
        for down in range(self._width(displayed[0]) if len(first) == 2 else 1):
            for right in range(self._width(displayed[-1])):
                inside = (row + down < rows.tile) & (column + right < columns.tile)
                owners[row[inside] + down, column[inside] + right] = threads[inside]
        return owners

    def _width(self, dimension: int) -> int:
        """Consecutive elements that one access stores along a dimension."""
        if (tensor_map := self.site.access.array.tensor_map) is not None:
            return tensor_map.box[dimension]
        return self.site.access.width if self.site.access.array.strides[dimension] == 1 else 1

    def _points(
        self,
        stores: NDArray[np.int64],
        counters: Sequence[Counter],
        fixed: Mapping[sympy.Symbol, int] = MappingProxyType({}),
    ) -> _Points:
        return _Points(self.kernel.block, self.inner, stores, counters, fixed)


class _Points:
    """Some `stores` of a block, numbered over threads and iterations, as columns, and the combinations of some counters
    as rows."""

    def __init__(
        self,
        block: tuple[int, int, int],
        inner: Sequence[Counter],
        stores: NDArray[np.int64],
        outer: Sequence[Counter],
        fixed: Mapping[sympy.Symbol, int],
    ) -> None:
        across = np.array(np.unravel_index(stores, [*block[::-1], *(counter.count for counter in inner)]))
        down = np.indices([counter.count for counter in outer]).reshape(len(outer), -1) if outer else np.empty((0, 1))
        self.values: dict[sympy.Symbol, Any] = dict(fixed)
        self.values |= dict(zip(reversed(THREAD), across[:3, np.newaxis], strict=True))
        self.values |= {c.symbol: axis[np.newaxis] for c, axis in zip(inner, across[3:], strict=True)}
        self.values |= {c.symbol: axis[:, np.newaxis] for c, axis in zip(outer, down, strict=True)}
        self.shape = down.shape[1], across.shape[1]
        x, y, z = (self.values[axis] for axis in THREAD)
        self.threads = np.broadcast_to(x + block[0] * (y + block[1] * z), self.shape)
        self._ranges = {name: (0, int(np.max(value))) for name, value in self.values.items()}

    def value(self, expr: Integer) -> NDArray[np.int64]:
        return np.broadcast_to(evaluator(expr, self._ranges)(self.values), self.shape)

    def active(self, predicates: Iterable[Predicate]) -> NDArray[np.bool_]:
        """Where the comparisons of these values hold; others are left out."""
        holds = np.ones(self.shape, np.bool_)
        for predicate in predicates:
            known = [term for term in predicate.terms if term[0].free_symbols <= self.values.keys()]
            if predicate.negated and len(known) < len(predicate.terms):
                continue
            terms = [_COMPARED[operator](self.value(difference), 0) for difference, operator in known]
            holds &= np.logical_and.reduce(terms, axis=0) != predicate.negated if terms else True
        return holds


def _distinguishes_tiles(counter: Counter, walking: frozenset[int]) -> bool:
    name = str(counter.symbol)
    return counter.symbol in BLOCK or (name.startswith("loop ") and int(name.split(" ", 2)[1]) in walking)
