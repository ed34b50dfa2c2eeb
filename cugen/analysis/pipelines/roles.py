"""The roles of a warp-specialised kernel: what each warpgroup, the producer warp among them, executes in the loops over
output tiles and k-tiles.

Conditions on `threadIdx` are evaluated for every thread of the block. Loops round waits or arrivals stay symbolic: the
loop over k-tiles, and round it that over output tiles. Others with synchronisation in them have constant bounds and are
unrolled; those without are passed once, `times` their trips.

The k-tiles of a block are numbered over its output tiles: FILL = WAVE * T + K_TILE, with T trips of the loop over
k-tiles. Any subexpression of that value plus a constant is replaced by FILL plus the constant; after the loop over
k-tiles FILL is the last of the output tile. With stream-K T isn't the same for all work units, which take the place of
output tiles: FILL = k_tiles_before + K_TILE, with the kernel's own name for the k-tiles of the units before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import sympy

from cugen.analysis.pipelines.claims import NotRecognised
from cugen.analysis.pipelines.counters import counted_by_fill
from cugen.analysis.pipelines.expressions import (
    BLOCK,
    BLOCK_ID,
    FILL,
    K_TILE,
    THREAD,
    WAVE,
    evaluated,
    first_k_tile,
    is_of_tile,
    numbered,
    of_rank,
    reduced,
)
from cugen.analysis.totals.affine import evaluator, quasi_period
from cugen.machine.wgmma import WARPGROUP
from cugen.plan.kernel import Kernel
from cugen.plan.nodes import (
    COMPARISONS,
    Barrier,
    ClusterBarrier,
    Comment,
    Comparison,
    Condition,
    Define,
    For,
    Guard,
    If,
    LoadBlockId,
    Loop,
    NamedBarrier,
    Node,
    ReturnUnless,
    Store,
    StoreMatrix,
)
from cugen.plan.pipeline_nodes import ArriveBarrier, AwaitBarrier, CommitWgmmas, PipelineNode, TensorLoad, Wgmma
from cugen.plan.symbols import FloorDiv, Integer, bounds, integer
from cugen.plan.traversal.walking import accesses_of, walk_nodes

_MAX_UNROLLED = 256


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

    def per_thread(self, expr: Integer, wave: int = 0) -> dict[int, int]:
        """The expression's value for each of the event's threads, in the `wave`-th output tile of a block."""
        value = self.value(expr).xreplace({WAVE: integer(wave)})
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


@dataclass(frozen=True, slots=True)
class Role:
    """What a warpgroup, or the part of one, executes, in order: `before` all, and for each output tile events before
    the loop over k-tiles, its `body`, and events after it; `after` all. `first_k_tiles`: a loop before, which only
    copies."""

    threads: range
    before: tuple[Event, ...] = ()
    tiles: PipelineLoop | None = None
    tile_before: tuple[Event, ...] = ()
    k_tiles: PipelineLoop | None = None
    body: tuple[Event, ...] = ()
    tile_after: tuple[Event, ...] = ()
    after: tuple[Event, ...] = ()
    first_k_tiles: PipelineLoop | None = None

    @property
    def events(self) -> tuple[Event, ...]:
        return (*self.before, *self.first_copies, *self.tile_before, *self.body, *self.tile_after, *self.after)

    @property
    def first_copies(self) -> tuple[Event, ...]:
        """What the loop over the first k-tiles has in its body."""
        return _split(self.first_k_tiles.items, self.threads)[0] if self.first_k_tiles else ()

    def executes(self, *kinds: type) -> bool:
        return any(isinstance(event.node, kinds) for event in self.events)


def items_of(kernel: Kernel) -> tuple[Item, ...]:
    """The kernel's events and loops. NotRecognised for forms that the proofs don't cover."""
    if kernel.block[1:] != (1, 1):
        raise NotRecognised("the block has more than one dimension")
    walk = _Walk(dict(kernel.ranges), kernel.work_units.k_tiles_before if kernel.work_units else None)
    # Sizes that are known: names of numbers of tiles are numbers, too.
    known = {name: integer(low) for name, (low, high) in kernel.ranges if low == high}
    return tuple(walk.items(kernel.body, Scope(frozenset(range(kernel.threads)), known)))


def is_of_cluster(loop: PipelineLoop, size: int) -> bool:
    """Whether all blocks of a cluster of this size have the same bounds of a loop."""
    return len({tuple(of_rank(end, rank, size) for end in (loop.start, loop.stop)) for rank in range(size)}) == 1


def events_in(items: tuple[Item, ...]) -> Iterator[Event]:
    for item in items:
        if isinstance(item, Event):
            yield item
        else:
            yield from events_in(item.items)


def roles_of(items: tuple[Item, ...], threads: int) -> tuple[Role, ...]:
    """The role of each 128 threads; the producer warp is the last, with fewer."""
    groups = (range(first, min(first + WARPGROUP, threads)) for first in range(0, threads, WARPGROUP))
    return tuple(_role(items, group) for group in groups)


def _role(items: tuple[Item, ...], group: range) -> Role:
    first: list[PipelineLoop] = []
    before, loop, after = _split(items, group, first)
    if loop is None:
        return Role(group, before)
    if loop.over_k:
        body = _split(loop.items, group)[0]
        return Role(group, before, None, (), loop, body, after, first_k_tiles=first[0] if first else None)
    tile_before, k_tiles, tile_after = _split(loop.items, group)
    if k_tiles is None or not k_tiles.over_k or first:
        raise NotRecognised("a loop over output tiles has no loop over k-tiles in it, or one before it")
    body = _split(k_tiles.items, group)[0]
    return Role(group, before, loop, tile_before, k_tiles, body, tile_after, after)


def _split(
    items: tuple[Item, ...], group: range, first: list[PipelineLoop] | None = None
) -> tuple[tuple[Event, ...], PipelineLoop | None, tuple[Event, ...]]:
    """The group's events before and after its only loop. A loop before that only copies is added to `first`."""
    before: list[Event] = []
    after: list[Event] = []
    loop: PipelineLoop | None = None
    members = frozenset(group)
    for item in items:
        if not item.threads & members:
            continue
        if isinstance(item, Event):
            in_role = replace(item.scope, threads=item.threads & members)
            (after if loop else before).append(Event(item.node, in_role, item.threads))
        elif loop is not None and first == [] and loop.only_copies:
            first.append(loop)
            before, after, loop = [*before, *after], [], item
        elif loop is not None:
            raise NotRecognised("a role has more than one loop over k-tiles or output tiles")
        else:
            loop = item
    return tuple(before), loop, tuple(after)


@dataclass
class _Walk:
    """Collects the items of a kernel's nodes."""

    ranges: dict[sympy.Symbol, tuple[int, int]]
    counted_name: Integer | None = None  # of the k-tiles of work units before
    k_tiles_before: Integer | None = None  # its value over BLOCK_ID and WAVE, where it was passed last
    condition: Comparison | None = None  # of the work units that there are, in the loop over them passed last

    def items(self, nodes: tuple[Node, ...], scope: Scope) -> Iterator[Item]:
        scope = replace(scope, values=dict(scope.values))
        for node in nodes:
            match node:
                case Define() if node.index.symbol == self.counted_name:
                    self.k_tiles_before = _defined(node, scope)
                    scope = replace(scope, values={**scope.values, node.index.symbol: node.index.symbol})
                case Define():
                    scope = replace(scope, values={**scope.values, node.index.symbol: _defined(node, scope)})
                case LoadBlockId():
                    self.ranges[BLOCK_ID] = node.index.range
                    scope = replace(scope, values={**scope.values, node.index.symbol: BLOCK_ID})
                    yield Event(node, scope)
                case For() if _is_pipeline_loop(node):
                    loop = self._pipeline_loop(node, scope)
                    yield loop
                    if loop.over_k:
                        last = self._base(scope, loop.trips, loop.trips - 1)
                        scope = replace(scope, base=last)
                case For():
                    yield from self._loop(node, scope)
                case If() if self.counted_name in scope.values and any(map(_is_k_loop, node.then)):
                    yield from self._of_unit(node, scope)
                case If():
                    then, orelse = _branches(node.condition, scope)
                    if then.threads:
                        yield from self.items(node.then, then)
                    if orelse.threads:
                        yield from self.items(node.orelse, orelse)
                case ReturnUnless():
                    raise NotRecognised("threads return early")
                case _:
                    yield Event(node, scope)

    def _pipeline_loop(self, node: For, scope: Scope) -> PipelineLoop:
        loop, step = node.loop, int(node.loop.step)  # without the name of its size
        start, stop = (reduced(end.xreplace(scope.values)) for end in (loop.start, loop.stop))
        over_k = not any(isinstance(inner, For) and _is_pipeline_loop(inner) for inner in walk_nodes(node.body))
        if THREAD in start.free_symbols | stop.free_symbols or loop.downward or loop.halves or loop.doubles:
            raise NotRecognised("threads have different bounds of a loop over k-tiles")
        if not scope.always:
            raise NotRecognised("a loop over k-tiles is in a branch")
        values = dict(scope.values)
        if not over_k and self.counted_name is not None:
            return self._loop_over_units(node, start, stop, scope)
        if not over_k:
            values |= {counter.index.symbol: _counted(counter, loop) for counter in node.counted}
            body = tuple(n for n in node.body if n not in node.counted)
            items = tuple(self.items(body, replace(scope, values=values)))
            return PipelineLoop(start, stop, step, False, scope.threads, items, self._trips(loop, stop))
        if start != 0:
            raise NotRecognised("a loop over k-tiles doesn't begin at 0")
        values[loop.index.symbol] = step * K_TILE
        made = PipelineLoop(start, stop, step, True, scope.threads, (), self._trips(loop, stop))
        inner = replace(scope, values=values, base=self._base(scope, made.trips, K_TILE), k_stop=stop)
        inner = replace(inner, values={**values, **counted_by_fill(node.counted, inner.values, inner.base)})
        body = tuple(n for n in node.body if n not in node.counted)
        before = self.k_tiles_before if self.counted_name in scope.values else None
        return replace(made, items=tuple(self.items(body, inner)), k_tiles_before=before)

    def _loop_over_units(self, node: For, start: Integer, stop: Integer, scope: Scope) -> PipelineLoop:
        """The loop over a block's work units, which WAVE numbers; of a unit that there isn't, nothing is executed."""
        if node.counted or start != 0 or node.loop.step != 1 or not stop.is_Integer:
            raise NotRecognised("a loop over work units doesn't count them from 0 on")
        self.ranges[WAVE] = (0, max(int(stop) - 1, 0))
        others = [inner for inner in node.body if not isinstance(inner, Define | Comment)]
        self.condition = None
        inner = replace(scope, values={**scope.values, node.loop.index.symbol: WAVE})
        items = tuple(self.items(node.body, inner))
        if self.condition is not None and len(others) > 1:
            raise NotRecognised("a block executes statements for work units that there aren't")
        trips = self._trips(node.loop, stop)
        return PipelineLoop(start, stop, 1, False, scope.threads, items, trips, self.condition)

    def _of_unit(self, node: If, scope: Scope) -> Iterator[Item]:
        """A branch round the whole of a work unit: of units that there are."""
        terms = node.condition.terms if isinstance(node.condition, Guard) else ()
        if len(terms) != 1 or node.orelse:
            raise NotRecognised("which work units there are isn't a single condition")
        left, right = (side.xreplace(scope.values) for side in (terms[0].left, terms[0].right))
        if not (left - right).free_symbols <= {WAVE, BLOCK_ID}:
            raise NotRecognised("which work units there are isn't a condition of the block and the unit")
        self.condition = Comparison(left, terms[0].operator, right)
        yield from self.items(node.then, scope)

    def _base(self, scope: Scope, trips: Integer, k_tile: Integer) -> Integer:
        """FILL, in the loop over k-tiles or after it. WAVE is 0 without a loop over output tiles."""
        if self.counted_name is not None and self.counted_name in scope.values:
            return sympy.expand(self.counted_name + k_tile)
        persistent = any(WAVE in value.free_symbols for value in scope.values.values())
        return sympy.expand((WAVE if persistent else 0) * trips + k_tile)

    def _trips(self, loop: Loop, stop: Integer) -> tuple[int, int]:
        """Bounds of the number of trips from 0 on, by the range of the end or of its name."""
        ends = [bounds(end, self.ranges) for end in (loop.stop, stop)]
        step = int(loop.step)
        return -(-max(low for low, _ in ends) // step), -(-min(high for _, high in ends) // step)

    def _loop(self, node: For, scope: Scope) -> Iterator[Item]:
        loop = node.loop
        start, stop = (reduced(end.xreplace(scope.values)) for end in (loop.start, loop.stop))
        values = range(int(start), int(stop), int(loop.step)) if start.is_Integer and stop.is_Integer else None
        if not any(map(_is_synchronising, walk_nodes(node.body))) and not _is_over_buffers(node):
            plain = values is not None and not (loop.halves or loop.doubles)
            times = scope.times * len(values) if plain and values is not None and scope.times is not None else None
            yield from self.items(node.body, replace(scope, times=times))
            return
        if values is None or len(values) > _MAX_UNROLLED or loop.halves or loop.doubles:
            raise NotRecognised("a loop with synchronisation in it has no constant bounds")
        for value in reversed(values) if loop.downward else values:
            inner = {**scope.values, loop.index.symbol: integer(value)}
            yield from self.items(node.body, replace(scope, values=inner))


def _defined(node: Define, scope: Scope) -> Integer:
    if node.then is not None:
        raise NotRecognised("a counter isn't in the header of a loop over output tiles")
    return numbered(node.index.definition.xreplace(scope.values), scope.base)


def _counted(counter: Define, loop: Loop) -> Integer:
    name = counter.index.symbol
    definitions = (0, FloorDiv(loop.index.symbol - loop.start, integer(int(loop.step))))
    if counter.then != name + 1 or counter.index.definition not in definitions:
        raise NotRecognised(f"`{name}` doesn't count the output tiles of a block")
    return WAVE


def _is_pipeline_loop(node: For) -> bool:
    """Whether it is over k-tiles, or round such a loop: it waits or arrives, or copies to several stages."""
    name = node.loop.index.symbol
    return any(
        isinstance(inner, AwaitBarrier | ArriveBarrier | CommitWgmmas)
        or (isinstance(inner, TensorLoad) and name in inner.barrier.subscripts[0].free_symbols)
        for inner in walk_nodes(node.body)
    )


def _is_k_loop(node: Node) -> bool:
    return isinstance(node, For) and _is_pipeline_loop(node)


def _is_synchronising(node: Node) -> bool:
    kinds = PipelineNode | Barrier | NamedBarrier | ClusterBarrier
    return isinstance(node, kinds) and not isinstance(node, Wgmma | TensorLoad)


def _is_over_buffers(node: For) -> bool:
    """Whether each trip stores to another buffer: the subscripts before those of a box depend on the loop's index."""
    storing = (inner for inner in walk_nodes(node.body) if isinstance(inner, Store | StoreMatrix))
    stores = (access for inner in storing for access in accesses_of(inner) if not access.is_load)
    leading = (sub for access in stores if access.array.space == "shared" for sub in access.subscripts[:-2])
    return any(node.loop.index.symbol in sub.free_symbols for sub in leading)


def _branches(condition: Condition, scope: Scope) -> tuple[Scope, Scope]:
    """The scopes where the condition holds and where it fails."""
    if not isinstance(condition, Guard):
        return (replace(scope, certain=False),) * 2
    then, depends_on_thread_alone = scope, True
    for term in condition.terms:
        left, right = (side.xreplace(scope.values) for side in (term.left, term.right))
        if (left - right).free_symbols <= {THREAD}:
            threads = np.array(sorted(then.threads), dtype=np.int64)
            holds = COMPARISONS[term.operator](evaluated(left, threads), evaluated(right, threads))
            then = replace(then, threads=frozenset(int(t) for t in threads[np.asarray(holds, dtype=bool)]))
            continue
        depends_on_thread_alone = False
        if scope.base is not None:
            left, right = (side.xreplace({FILL: scope.base}) for side in (left, right))
        compared = Comparison(left, term.operator, right)
        if (first := first_k_tile(compared)) is not None:
            then = replace(then, first=max(then.first, first))
        elif (left - right).free_symbols <= {K_TILE, WAVE, BLOCK, BLOCK_ID} or _is_from_end(compared, scope):
            then = replace(then, chosen=(*then.chosen, compared))
        else:
            then = replace(then, certain=False)
    if depends_on_thread_alone:
        return then, replace(scope, threads=scope.threads - then.threads)
    terms = then.chosen[len(scope.chosen) :]
    if then == replace(scope, chosen=then.chosen) and len(condition.terms) == 1 and is_of_tile(terms[0]):
        return then, replace(scope, chosen=(*scope.chosen, terms[0].opposite))
    return then, replace(scope, certain=False)


def _is_from_end(term: Comparison, scope: Scope) -> bool:
    """Whether a comparison is one of the k-tile and the end of the loop over k-tiles."""
    if scope.k_stop is None or K_TILE not in (term.left - term.right).free_symbols:
        return False
    return bool(sympy.expand(term.left - term.right + scope.k_stop).free_symbols == {K_TILE})
