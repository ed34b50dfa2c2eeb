"""The events and loops of a kernel's nodes, in order.

Conditions on `threadIdx` are evaluated for every thread of the block. Loops round waits or arrivals stay symbolic: the
loop over k-tiles, and round it that over output tiles. Others with synchronisation in them have constant bounds and are
unrolled; those without are passed once, `times` their trips.
"""

from __future__ import annotations

from collections.abc import Iterator
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
    reduced,
)
from cugen.analysis.pipelines.roles.events import Event, Item, PipelineLoop, Scope
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


def items_of(kernel: Kernel) -> tuple[Item, ...]:
    """The kernel's events and loops. NotRecognised for forms that the proofs don't cover."""
    if kernel.block[1:] != (1, 1):
        raise NotRecognised("the block has more than one dimension")
    walk = _Walk(dict(kernel.ranges), kernel.work_units.k_tiles_before if kernel.work_units else None)
    # Sizes that are known: names of numbers of tiles are numbers, too.
    known = {name: integer(low) for name, (low, high) in kernel.ranges if low == high}
    return tuple(walk.items(kernel.body, Scope(frozenset(range(kernel.threads)), known)))


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
    """Whether it is over k-tiles, or round such a loop: it waits or arrives, or copies to several stages. One over
    groups of a k-tile's terms, whose wgmmas it commits, is unrolled."""
    name = node.loop.index.symbol
    return any(
        isinstance(inner, AwaitBarrier | ArriveBarrier)
        or (isinstance(inner, CommitWgmmas) and not node.loop.unroll)
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
    if then == replace(scope, chosen=then.chosen) and len(condition.terms) == len(terms) == 1 and is_of_tile(terms[0]):
        return then, replace(scope, chosen=(*scope.chosen, terms[0].opposite))
    return then, replace(scope, certain=False)


def _is_from_end(term: Comparison, scope: Scope) -> bool:
    """Whether a comparison is one of the k-tile and the end of the loop over k-tiles."""
    if scope.k_stop is None or K_TILE not in (term.left - term.right).free_symbols:
        return False
    return bool(sympy.expand(term.left - term.right + scope.k_stop).free_symbols == {K_TILE})
