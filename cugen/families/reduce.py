"""Reductions of neighbours in memory: the threads of a warp or of a block share each row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cugen.families.base import Family, Refusal, Request, Tunable, refuse_tunables
from cugen.families.blocks import define, lay_blocks, limit, thread
from cugen.families.elementwise import placement_refusals
from cugen.families.grid import divides
from cugen.families.kernels import assemble, new_lowering
from cugen.families.reduction import Reduction, recognise
from cugen.families.statements import lower_statements
from cugen.plan.ir import (
    Access,
    Array,
    Assign,
    Barrier,
    Comparison,
    Declare,
    Element,
    For,
    Guard,
    If,
    Index,
    Kernel,
    Let,
    Loop,
    Node,
    ReturnUnless,
    Shuffled,
    Store,
)
from cugen.plan.lowering import Lowering
from cugen.plan.reductions import ACCUMULATORS, accumulate, combine, identity
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import INT32_MAX, FloorDiv, Mod, bounds, ceil_div, integer
from cugen.spec.expressions import Expr, Local, Reduce

_WARP = 32
_LONGEST_FOR_A_WARP = 1024  # elements of a row; beyond, a block has more loads in flight
_MANY_ROWS = 1024  # so many blocks fill a device; where there are fewer, each is as large as it gets
_THREADS = Tunable(
    "threads",
    (32, 64, 128, 256, 512, 1024),
    "by length",
    f"threads that share a row; by default a warp for rows of up to {_LONGEST_FOR_A_WARP} elements, else 256, or 1024"
    " for few rows",
)
_ROWS = Tunable("rows", (1, 2, 4, 8, 16, 32), "as fit", "rows of a block where a warp has each; by default 8, or fewer")


def refusals(request: Request) -> tuple[Refusal, ...]:
    found = [*refuse_tunables(request, (_THREADS, _ROWS)), *placement_refusals(request, {})]
    for key in ("block", "thread", "step"):
        if getattr(request.schedule, key):
            found.append(Refusal("has `threads` and `rows` in place of a block and a step", f"schedule.{key}"))
    recognised = recognise(request)
    if isinstance(recognised, Refusal):
        return (*found, recognised)
    if found:
        return tuple(found)
    return tuple(_size_refusals(request, recognised))


def _size_refusals(request: Request, found: Reduction) -> Iterator[Refusal]:
    longest = _longest(request, found)
    if longest < _WARP and request.schedule.family != "reduce":
        yield Refusal(f"{longest} elements leave lanes of a warp without work")
    if _threads(request, found) > _WARP and int(dict(request.schedule.tunables).get("rows", 1)) > 1:
        yield Refusal("a block has several rows only where a warp has each: 32 threads", "schedule.rows")


def _longest(request: Request, found: Reduction) -> int:
    return bounds(to_integer(found.walked.extent, request.context.symbols), dict(request.context.ranges))[1]


def _count(request: Request, found: Reduction) -> int:
    """How many rows there are at most."""
    count = 1
    for index in found.rows:
        count *= bounds(to_integer(index.extent, request.context.symbols), dict(request.context.ranges))[1]
    return count


def _threads(request: Request, found: Reduction) -> int:
    asked = dict(request.schedule.tunables)
    if "threads" in asked:
        return int(asked["threads"])
    if _longest(request, found) <= _LONGEST_FOR_A_WARP or int(asked.get("rows", 1)) > 1:
        return _WARP
    return 256 if _count(request, found) >= _MANY_ROWS else 1024


def _rows(request: Request, found: Reduction, threads: int) -> int:
    """Rows of a block, along the fastest index of the output."""
    if threads > _WARP or not found.rows:
        return 1
    asked = dict(request.schedule.tunables).get("rows")
    if asked is not None:
        return int(asked)
    rows = bounds(to_integer(found.rows[0].extent, request.context.symbols), dict(request.context.ranges))[1]
    return min(8, 1 << max(rows - 1, 0).bit_length())


def build(request: Request) -> Kernel:
    found = recognise(request)
    assert not isinstance(found, Refusal)
    lowering = new_lowering(request)
    lowering.arrays = found.arrays
    return _Builder(found, lowering).kernel()


class _Builder:
    """The kernel of one group: every thread reduces its share, then lanes and warps combine theirs."""

    def __init__(self, found: Reduction, lowering: Lowering) -> None:
        self.request, self.found, self.lowering = found.request, found, lowering
        self.threads = _threads(self.request, found)
        self.rows = _rows(self.request, found, self.threads)
        self.lane = thread("x", self.threads, lowering)
        self.running = Local(lowering.names.allocate(ACCUMULATORS[found.whole.kind]), found.whole.dtype)

    def kernel(self) -> Kernel:
        counts = [to_integer(index.extent, self.lowering.symbols) for index in self.found.rows]
        blocks = lay_blocks(
            [ceil_div(count, self.rows if axis == 0 else 1) for axis, count in enumerate(counts)],
            self.lowering,
            self.request.target,
        )
        indices: list[Node] = []
        ends: list[Node] = []
        for axis, (row, extent, place) in enumerate(zip(self.found.rows, counts, blocks.places, strict=False)):
            size = self.rows if axis == 0 else 1
            own = thread("y", size, self.lowering)
            node = define(row.name, place * size + own, self.lowering, below=ceil_div(extent, size) * size)
            self.lowering.symbols[row.name] = node.index.symbol
            if not divides(size, extent, self.request.context):
                ends.append(ReturnUnless(Guard((Comparison(node.index.symbol, "<", extent),))))
            limit(node.index, extent, self.lowering)
            indices.insert(0, node)
        scope = Scope()
        partial = self._partial(scope)
        scope.nodes.clear()
        scope.remember(self.found.whole, self.running)
        lower_statements(self.request, self.lowering, scope)
        first = ReturnUnless(Guard((Comparison(self.lane, "==", integer(0)),)))
        parts = (
            ("indices", (*indices, *ends)),
            ("partial", partial),
            ("warp", tuple(self._in_a_warp())),
            ("across", tuple(self._across_warps(first))),
            ("result", (first, *scope.nodes) if self.threads == _WARP else tuple(scope.nodes)),
        )
        kernel = assemble(self.request, self.lowering, "reduce", parts, blocks.grid, (self.threads, self.rows, 1))
        return replace(kernel, reasons=self._reasons())

    def _partial(self, scope: Scope) -> tuple[Node, ...]:
        """A thread's share: one element of each stretch that all threads read side by side."""
        found, lowering, running = self.found, self.lowering, self.running
        lowering.prepare(tuple(statement.value for statement in self.request.group.statements))
        extent = to_integer(found.walked.extent, lowering.symbols)
        low, high = bounds(extent, lowering.ranges)
        # The step beyond the last element must not overflow the loop's index.
        last = max(high - 1, 0) if high + self.threads <= INT32_MAX else high + self.threads
        index = Index(lowering.names.allocate(found.walked.name), self.lane, (0, last))
        lowering.ranges[index.symbol] = index.range
        lowering.limits[index.symbol] = extent
        lowering.symbols[found.walked.name] = index.symbol
        inner = Scope(scope, frozenset((found.walked.name,)), certain=low >= 1)
        accumulate(lowering, found.whole, running, inner)
        del lowering.symbols[found.walked.name]
        first = Let(running, identity(found.whole.kind, found.whole.dtype), mutable=True)
        walk = For(Loop(index, self.lane, extent, self.threads), tuple(inner.nodes))
        return (*scope.nodes, first, walk)

    def _in_a_warp(self) -> Iterator[Node]:
        distance = _WARP // 2
        while distance:
            other = Shuffled(self.running.name, self.running.dtype, distance)
            yield Assign(self.running, _combined(self.found.whole, self.running, other))
            distance //= 2

    def _across_warps(self, first: Node) -> Iterator[Node]:
        if self.threads == _WARP:
            return
        warps, lowering, dtype = self.threads // _WARP, self.lowering, self.running.dtype
        name = lowering.names.allocate("warp_results")
        shared = Array("", name, dtype, (integer(warps),), (integer(1),), "shared", flat=False)
        yield Declare(shared)
        mine = Store(Access(shared, (FloorDiv(self.lane, integer(_WARP)),), "store"), self.running)
        yield If(Guard((Comparison(Mod(self.lane, integer(_WARP)), "==", integer(0)),)), (mine,))
        yield Barrier()
        yield first
        warp = Index(lowering.names.allocate("warp"), integer(1), (1, warps - 1))
        lowering.ranges[warp.symbol] = warp.range
        other = Element.of(Access(shared, (warp.symbol,), "load"))
        step = Assign(self.running, combine(self.found.whole.kind, self.running, other))
        yield For(Loop(warp, integer(1), integer(warps)), (step,))

    def _reasons(self) -> tuple[str, ...]:
        along = self.found.walked.name
        if self.threads == _WARP:
            return (f"the lanes of a warp share each result and read neighbours along {along}",)
        shared = f"{self.threads} threads share each result and read neighbours along {along}"
        if self.found.rows:
            return (shared,)
        return (shared, "one block computes the one result: a sum over many blocks would take a second launch")


def _combined(reduction: Reduce, running: Local, other: Local) -> Expr:
    """One step between lanes. C may skip the right side of `||` and `&&`: the shuffle, in which all lanes take part,
    stands on the left."""
    if reduction.kind in ("any", "all"):
        return combine(reduction.kind, other, running)
    return combine(reduction.kind, running, other)


FAMILY = Family(
    "reduce",
    rank=15,
    doc="reductions of neighbours in memory, a warp or a block for each result",
    refusals=refusals,
    build=build,
    tunables=(_THREADS, _ROWS),
)
