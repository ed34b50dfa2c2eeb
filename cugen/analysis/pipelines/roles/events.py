"""What threads of a kernel execute: nodes with the scope in which they run, and loops over output tiles and k-tiles.

The k-tiles of a block are numbered over its output tiles: FILL = WAVE * T + K_TILE, with T trips of the loop over
k-tiles. Any subexpression of that value plus a constant is replaced by FILL plus the constant; after the loop over
k-tiles FILL is the last of the output tile. With stream-K T isn't the same for all work units, which take the place of
output tiles: FILL = k_tiles_before + K_TILE, with the kernel's own name for the k-tiles of the units before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import sympy

from cugen.analysis.pipelines.claims import NotRecognised
from cugen.analysis.pipelines.expressions import (
    FILL,
    THREAD,
    WAVE,
    evaluated,
    is_of_tile,
    numbered,
    of_rank,
    reduced,
)
from cugen.analysis.totals.affine import evaluator, quasi_period
from cugen.plan.nodes import (
    Comparison,
    Node,
)
from cugen.plan.pipeline_nodes import AwaitBarrier, Wgmma
from cugen.plan.symbols import FloorDiv, Integer, integer


@dataclass(frozen=True, slots=True)
class Scope:
    """Where a node is: the threads that get there, the values of its indices, and `first`, the first k-tile of an
    output tile in which it runs. `chosen`: other conditions on the k-tile, which are those of the whole block. `times`:
    trips of loops round it, None if unknown. `certain`: under no condition of data or sizes. `base`: the value of FILL
    over WAVE and K_TILE, None before the loop over k-tiles, which ends at `k_stop`. Of an event that copies a k-tile
    `ahead` of the current one by so many, FILL is that one's number."""

    threads: frozenset[int]
    values: Mapping[sympy.Symbol, Integer]
    base: Integer | None = None
    first: int = 0
    chosen: tuple[Comparison, ...] = ()
    times: int | None = 1
    certain: bool = True
    k_stop: Integer | None = None
    ahead: int = 0

    @property
    def always(self) -> bool:
        """Whether it runs in each k-tile from `first` on."""
        return self.certain and not self.chosen

    @property
    def is_of_k_tiles(self) -> bool:
        """Whether it runs in some k-tiles, or all, of each output tile."""
        return self.certain and not any(map(is_of_tile, self.chosen))


@dataclass(frozen=True, slots=True)
class Event:
    """A node with its scope."""

    node: Node
    scope: Scope
    all_threads: frozenset[int] = frozenset()  # that execute it, where `scope` has those of one role

    @property
    def threads(self) -> frozenset[int]:
        return self.scope.threads

    def value(self, expr: Integer) -> Integer:
        """The expression over FILL, THREAD and params."""
        value = numbered(expr.xreplace(self.scope.values), self.scope.base)
        return reduced(value.xreplace({FILL: FILL - self.scope.ahead})) if self.scope.ahead else value

    def per_thread(self, expr: Integer, wave: int = 0, *, of_cluster: tuple[int, int] | None = None) -> dict[int, int]:
        """The expression's value for each of the event's threads, in the `wave`-th output tile of a block: in that of
        a rank of a cluster of so many blocks, if it depends on that."""
        value = self.value(expr).xreplace({WAVE: integer(wave)})
        if of_cluster is not None:
            value = of_rank(value, *of_cluster)
        if not value.free_symbols <= {THREAD}:
            raise NotRecognised(f"`{expr}` isn't a function of the thread alone")
        threads = sorted(self.threads)
        return dict(zip(threads, map(int, evaluated(value, np.array(threads))), strict=True))

    def per_fill(self, expr: Integer, stages: int) -> dict[int, int]:
        """The expression's value for each k-tile of two rounds of the stages, after which it repeats; for a single one
        where the event is executed once."""
        value, base = self.value(expr), self.scope.base
        fills = np.arange(2 * stages)
        if base is not None and base.is_Integer and reduced(value).is_Integer:
            value, fills = reduced(value), np.array([int(base)])
        elif not value.free_symbols <= {FILL} or (period := quasi_period(value, FILL)) is None:
            raise NotRecognised(f"`{expr}` isn't a function of the k-tile's number WAVE * K_TILES + K_TILE")
        elif period[1] != 0 or 2 * stages % period[0]:
            raise NotRecognised(f"`{expr}` doesn't repeat after two rounds of the stages")
        values = evaluator(value, {FILL: (0, int(fills.max()))})({FILL: fills})
        return dict(zip(map(int, fills), map(int, np.broadcast_to(values, fills.shape)), strict=True))


@dataclass(frozen=True, slots=True)
class PipelineLoop:
    """A loop over output tiles or, `over_k`, k-tiles: from `start` to below `stop` by `step`, with its items. Of a loop
    over work units `condition` is that of the units that there are, and `k_tiles_before`, of the loop over k-tiles in
    it, the number of those of the units before, over BLOCK_ID and WAVE."""

    start: Integer
    stop: Integer
    step: int
    over_k: bool
    threads: frozenset[int]
    items: tuple[Item, ...]
    trip_range: tuple[int, int]
    condition: Comparison | None = None
    k_tiles_before: Integer | None = None

    @property
    def trips(self) -> Integer:
        return reduced(FloorDiv(self.stop - self.start + integer(self.step - 1), integer(self.step)))

    @property
    def only_copies(self) -> bool:
        """Whether it is over k-tiles, which it doesn't wait for."""
        return self.over_k and not any(isinstance(event.node, AwaitBarrier | Wgmma) for event in events_in(self.items))

    def has_header_of(self, loop: PipelineLoop) -> bool:
        """Whether both run over the same values."""
        return self._header == loop._header

    @property
    def _header(self) -> tuple[object, ...]:
        over = (self.trips,) if self.over_k else (self.start, self.stop, self.step)  # k-tiles are numbered from 0 on
        return *over, self.condition, self.k_tiles_before


Item = Event | PipelineLoop


def is_of_cluster(loop: PipelineLoop, size: int) -> bool:
    """Whether all blocks of a cluster of this size have the same bounds of a loop."""
    return len({tuple(of_rank(end, rank, size) for end in (loop.start, loop.stop)) for rank in range(size)}) == 1


def events_in(items: tuple[Item, ...]) -> Iterator[Event]:
    for item in items:
        if isinstance(item, Event):
            yield item
        else:
            yield from events_in(item.items)
