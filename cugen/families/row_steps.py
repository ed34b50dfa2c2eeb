"""The sweeps over a row as nodes: loops over a thread's elements, and what its team combines after each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from cugen.families.base import Request
from cugen.families.collective import Running, first_values
from cugen.families.row_kept import Kept
from cugen.families.row_shape import Shape, is_vector
from cugen.families.row_sweeps import Sweep, mentions, moving_reads, shows_place
from cugen.families.row_team import RowTeam
from cugen.families.rows import Output, RowWork
from cugen.plan import usage
from cugen.plan.ir import (
    Access,
    Assign,
    Comparison,
    Define,
    For,
    Guard,
    If,
    Index,
    Let,
    Load,
    Loop,
    Node,
    Store,
    Vector,
)
from cugen.plan.lowering import Lowering
from cugen.plan.reductions import ACCUMULATORS, accumulate
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.substitution import rebuilt
from cugen.plan.symbols import INT32_MAX, Integer, bounds, integer
from cugen.spec.expressions import Cast, Expr, Local, Op, Read, Reduce, Select, children, free_indices, walk
from cugen.spec.types import FLOAT32


@dataclass(frozen=True, slots=True)
class Segment:
    """The slots from `start` on, below `stop`; some of what `is_guarded` may lie beyond the row's end."""

    start: int
    stop: int
    is_guarded: bool

    @property
    def count(self) -> int:
        return self.stop - self.start


class RowSteps:
    """Builds the nodes of one row, in order, in `root`.

    `inside` is what keeps stores to the rows that there are, where a team may have none of its own."""

    def __init__(
        self,
        request: Request,
        work: RowWork,
        lowering: Lowering,
        shape: Shape,
        sweeps: tuple[Sweep, ...],
        team: RowTeam,
        inside: Guard,
    ) -> None:
        self.request, self.work, self.lowering, self.shape = request, work, lowering, shape
        self.team, self.inside = team, inside
        self.column = work.domain.columns[0]
        self.root = Scope()
        self.results: dict[Expr, Local] = {}
        self.kept: dict[Expr, Kept] = {}
        self.aligned: dict[str, None] = {}
        self.taken: dict[str, None] = {}  # temporaries whose name a local has
        self.extent = to_integer(self.column.extent, lowering.symbols)
        low, self.longest = bounds(self.extent, lowering.ranges)
        self.never_empty = low >= 1
        self.slots = self._counter("s", shape.slots)
        self.slot = self.slots  # where the walk is
        self.part = self._counter("v", shape.width.count)
        self.first = self._first_index(sweeps)
        self.at = self._fixed_place() if shape.slots == 1 else self.first.symbol
        self.own = self._own_index()

    def _counter(self, wish: str, count: int) -> Integer:
        """A number below `count`, which a loop counts."""
        if count <= 1:
            return integer(0)
        index = Index(self.lowering.names.allocate(wish), integer(0), (0, count - 1))
        self.lowering.ranges[index.symbol] = index.range
        return index.symbol

    def _first_index(self, sweeps: tuple[Sweep, ...]) -> Index:
        """The first of the thread's elements side by side."""
        lowering, shape, name = self.lowering, self.shape, self.column.name
        start = self.team.lane * shape.width.count
        apart = shape.width.count > 1 and any(self._needs_own(sweep) for sweep in sweeps)
        wish = f"first_{name}" if apart else name
        last = max(self.longest - 1, 0)
        if shape.slots:
            start = start + self.slots * shape.stride
        elif self.longest + shape.stride > INT32_MAX:
            last = self.longest + shape.stride  # the step beyond the last element must not overflow
        index = Index(lowering.names.allocate(wish), start, (0, max(last, bounds(start, lowering.ranges)[1])))
        lowering.ranges[index.symbol] = (0, last)
        lowering.limits[index.symbol] = self.extent
        return index

    def _own_index(self) -> Index:
        """The place of one of a vector's elements."""
        lowering = self.lowering
        own = Index(lowering.names.allocate(self.column.name), self.at + self.part, (0, max(self.longest - 1, 0)))
        lowering.ranges[own.symbol] = own.range
        lowering.limits[own.symbol] = self.extent
        return own

    def _fixed_place(self) -> Integer:
        """The place of a thread's only vector, which holds in all sweeps."""
        if self.first.definition == 0 and self.shape.width.count > 1:
            return integer(0)
        self.root.nodes.append(Define(self.first))
        return self.first.symbol

    # One sweep

    def sweep(self, sweep: Sweep, *, everywhere: bool) -> None:
        """The loop over the thread's elements, and the team's results of its reductions."""
        lowering, root = self.lowering, self.root
        inner = tuple(map(self.settled, sweep.values[: len(sweep.values) - len(sweep.outputs)]))
        values = (*inner, *map(self._stored_value, sweep.outputs))
        lowering.prepare(values)
        self._hoist(values)
        runs: dict[Reduce, Running] = {}
        for reduction in sweep.reductions:
            runs[reduction] = self._running(reduction)
            root.nodes += first_values(runs[reduction])
        for expr in sweep.computed:
            self._keep(expr)
        for segment in self._segments():
            root.nodes += self._walk(sweep, runs, segment)
        root.nodes += self.team.combine(tuple(runs.values()), lowering, everywhere=everywhere)
        self.results.update({reduction: run.value for reduction, run in runs.items()})

    def _running(self, reduction: Reduce) -> Running:
        local = Local(self._name(reduction, ACCUMULATORS[reduction.kind]), reduction.dtype)
        if reduction.kind not in ("argmax", "argmin"):
            return Running(reduction.kind, local)
        name = "largest" if reduction.kind == "argmax" else "smallest"
        return Running(reduction.kind, local, Local(self.lowering.names.allocate(name), reduction.body.dtype))

    def settled(self, expr: Expr) -> Expr:
        """The expression with the results of reductions in their places."""
        return self.results[expr] if expr in self.results else rebuilt(expr, self.settled)

    def _stored_value(self, output: Output) -> Expr:
        """What is stored. Where that is rounded to fewer bits, quotients by what is the same for the row are computed
        from its reciprocal: a division of each element takes longer than memory does for so few bytes."""
        value = self.settled(output.value)
        is_narrow = self.lowering.arrays[output.target].dtype.bits <= 16
        return self._with_reciprocals(value) if is_narrow else value

    def _with_reciprocals(self, expr: Expr) -> Expr:
        if expr in self.kept or self.column.name not in free_indices(expr):
            return expr
        match rebuilt(expr, self._with_reciprocals):
            case Op(name="div", args=(_, divisor)) as quotient if self._is_result(divisor) and expr.dtype == FLOAT32:
                return replace(quotient, name="quotient")
            case changed:
                return changed

    def _is_result(self, expr: Expr) -> bool:
        """Whether it comes from the row's reductions alone."""
        return self.column.name not in free_indices(expr) and any(isinstance(part, Local) for part in walk(expr))

    def _hoist(self, values: tuple[Expr, ...]) -> None:
        """Names for what is the same all along the row, computed from the results of reductions."""
        for value in values:
            for expr in _fixed(value, self.column.name):
                if self.root.recall(expr) is None:
                    result = self.lowering.lower(expr, self.root)
                    if not isinstance(result, Local):
                        local = Local(self._name(expr, _wish(expr)), expr.dtype)
                        self.root.nodes.append(Let(local, result))
                        result = local
                    self.root.remember(expr, result)

    def _name(self, expr: Expr, otherwise: str, suffix: str = "") -> str:
        """A name for a value: what the spec calls it, where it does."""
        for known, target in self.work.names.items():
            if expr not in (known, self.settled(known)):
                continue
            if any(output.target == target for output in self.work.outputs):
                otherwise = f"{target.lower()}_value"
            elif suffix or target in self.taken:
                otherwise = target
            else:
                self.taken[target] = None
                return self.lowering.arrays[target].symbol
        if suffix and otherwise[-1].isdigit():
            otherwise += "_"
        return self.lowering.names.allocate(otherwise + suffix)

    def _keep(self, expr: Expr) -> None:
        """Registers for a value of each of the thread's elements."""
        shape = self.shape
        wish = expr.array.lower() if isinstance(expr, Read) else _wish(expr)
        element = expr.dtype
        if isinstance(expr, Read) and self._is_vector(expr):
            element = self.lowering.arrays[expr.array].dtype
        name = self._name(expr, wish, str(shape.width.count) if shape.width.count > 1 else "_row")
        kept = Kept.make(name, expr.dtype, element, shape.width.count, shape.slots)
        self.kept[self.settled(expr)] = kept
        self.root.nodes.append(kept.declaration())

    def _is_vector(self, expr: Expr) -> bool:
        """Whether one access reads the thread's neighbours at once."""
        return (
            self.shape.width.count > 1
            and isinstance(expr, Read)
            and expr.boundary is None
            and is_vector(self.work.arrays[expr.array], expr.subscripts, self.column.name)
        )

    def _needs_own(self, sweep: Sweep) -> bool:
        """Whether an element's own place matters, not only the vector's."""
        along = self.column.name
        return shows_place(sweep, along) or not all(map(self._is_vector, moving_reads(sweep, along)))

    def _segments(self) -> Iterator[Segment]:
        """The row cut where the thread's elements may begin to lie beyond its end."""
        shape = self.shape
        if shape.slots <= 1:
            sure = self.request.context.static(self.extent) == shape.stride
            yield Segment(0, 1, is_guarded=bool(shape.slots) and not sure)
            return
        full = min(bounds(self.extent, self.lowering.ranges)[0] // shape.stride, shape.slots)
        if full < 2:
            yield Segment(0, shape.slots, is_guarded=True)
            return
        yield Segment(0, full, is_guarded=False)
        if full < shape.slots:
            yield Segment(full, shape.slots, is_guarded=True)

    def _walk(self, sweep: Sweep, runs: dict[Reduce, Running], segment: Segment) -> tuple[Node, ...]:
        """The sweep over one segment: vector by vector, and element by element in each."""
        lowering, along, width = self.lowering, self.column.name, self.shape.width.count
        self.slot = integer(segment.start) if segment.count == 1 else self.slots
        around = Scope(self.root, frozenset((along,)), certain=self.never_empty)
        if self.shape.slots == 1 and not segment.is_guarded:
            around = self.root  # what is loaded there is known from then on
        inner = Scope(around, frozenset((along,))) if width > 1 else around
        lowering.symbols[along] = self.at
        if width > 1 and self._needs_own(sweep):
            lowering.symbols[along] = self.own.symbol
            inner.nodes.append(Define(self.own))
        self._recall(sweep, inner)
        self._load(sweep, around, inner)
        self._compute(sweep, inner)
        for reduction, run in runs.items():
            settled = self.settled(reduction)
            assert isinstance(settled, Reduce)
            accumulate(lowering, settled, run.value, inner, run.extreme)
        stores = self._outputs(sweep, around, inner)
        del lowering.symbols[along]
        if width > 1 and inner.nodes:
            each = Index(str(self.part), integer(0), (0, width - 1))
            around.nodes.append(For(Loop(each, integer(0), integer(width), unroll=True), tuple(inner.nodes)))
        terms = self.inside.terms if sweep.outputs else ()
        if around is self.root:
            return (If(Guard(terms), stores),) if terms else stores
        return self._around(segment, (*around.nodes, *stores), terms)

    def _around(self, segment: Segment, body: tuple[Node, ...], terms: tuple[Comparison, ...]) -> tuple[Node, ...]:
        """The body with its loop, its place in the row, and what keeps it inside."""
        shape, first, lowering = self.shape, self.first, self.lowering
        if not shape.slots:
            body = (If(Guard(terms), body),) if terms else body
            index = Index(first.name, first.symbol, lowering.ranges[first.symbol])
            return (For(Loop(index, first.definition, self.extent, shape.stride), body),)
        place = self.at
        if segment.count == 1 and shape.slots > 1:
            place = self.team.lane * shape.width.count + segment.start * shape.stride
            body = (Define(Index(first.name, place, first.range)), *body) if _mentions(body, first) else body
        if segment.is_guarded:
            terms = (Comparison(place, "<", self.extent), *terms)
        body = (If(Guard(terms), body),) if terms else body
        if segment.count == 1:
            return body
        body = (Define(first), *body) if _mentions(body, first) else body
        slots = Index(str(self.slots), integer(segment.start), (segment.start, segment.stop - 1))
        return (For(Loop(slots, integer(segment.start), integer(segment.stop), unroll=True), body),)

    # What is done at each element

    def _recall(self, sweep: Sweep, inner: Scope) -> None:
        shown = mentions(sweep)
        for expr in sweep.known:
            settled = self.settled(expr)
            value = self.kept[settled].get(self.slot, self.part)
            inner.remember(settled, self._named(expr, value, shown.get(expr, 0), inner))

    def _named(self, expr: Expr, value: Expr, count: int, scope: Scope) -> Expr:
        """The value, under a name where the text shows it more than once."""
        if count < 2 or (isinstance(value, Local) and type(value) is Local):
            return value
        wish = expr.array.lower() if isinstance(expr, Read) else _wish(expr)
        taken = isinstance(expr, Read) and wish == self.lowering.arrays[expr.array].symbol
        name = self.lowering.name_for(expr, f"{wish}_value" if taken else wish, scope)
        scope.nodes.append(Let(Local(name, expr.dtype), value))
        return Local(name, expr.dtype)

    def _load(self, sweep: Sweep, around: Scope, inner: Scope) -> None:
        """Wide loads, into what is kept or into vectors of their own; the rest is loaded where it is used."""
        shown = mentions(sweep)
        for read in filter(self._is_vector, moving_reads(sweep, self.column.name)):
            if read in sweep.computed:
                kept = self.kept[read].vector
                assert kept is not None
                vector = kept.one(self.slot)
            else:
                vector = self._vector(read, around)
            around.nodes.append(Load(vector, self._access(read.array, read.subscripts, "load")))
            if shown.get(read, 0):
                inner.remember(read, self._named(read, vector.component(self.part), shown[read], inner))

    def _compute(self, sweep: Sweep, inner: Scope) -> None:
        shown = mentions(sweep)
        for expr in sorted(sweep.computed, key=lambda e: sum(1 for _ in walk(e))):
            if self._is_vector(expr):
                continue
            settled = self.settled(expr)
            value = self.lowering.lower(settled, inner)
            value = self._named(expr, value, 2 if shown.get(expr, 0) else 1, inner)
            inner.remember(settled, value)
            inner.nodes.append(self.kept[settled].put(self.slot, self.part, value))

    def _outputs(self, sweep: Sweep, around: Scope, inner: Scope) -> tuple[Node, ...]:
        """Stores of what the row becomes; wide ones follow the loop over a vector's elements."""
        wide: list[Node] = []
        for output in sweep.outputs:
            value = self.lowering.lower(self._stored_value(output), inner)
            if self.shape.width.count > 1 and is_vector(
                self.work.arrays[output.target], output.subscripts, self.column.name
            ):
                vector = self._vector(Read(output.target, output.subscripts, output.value.dtype), around)
                around.nodes.append(Let(vector, None, mutable=True))
                inner.nodes.append(Assign(vector.component(self.part), value))
                wide.append(Store(self._access(output.target, output.subscripts, "store"), vector))
            else:
                subscripts = tuple(to_integer(sub, self.lowering.symbols) for sub in output.subscripts)
                inner.nodes.append(Store(Access(self.lowering.arrays[output.target], subscripts, "store"), value))
        return tuple(wide)

    def _vector(self, read: Read, scope: Scope) -> Vector:
        """`x4` for four elements of x."""
        name, dtype = read.array.lower(), self.lowering.arrays[read.array].dtype
        name = f"{name}{'_' if name[-1].isdigit() else ''}{self.shape.width.count}"
        return Vector(self.lowering.name_for(read, name, scope), dtype.compute, dtype, self.shape.width.count)

    def _access(self, array: str, subscripts: tuple[Expr, ...], kind: str) -> Access:
        self.aligned[array] = None
        symbols = {**self.lowering.symbols, self.column.name: self.at}
        places = tuple(to_integer(sub, symbols) for sub in subscripts)
        return Access(self.lowering.arrays[array], places, kind, self.shape.width.count)

    # After the sweeps

    def store_results(self, outputs: tuple[Output, ...]) -> None:
        """What is stored once for the row, by the first thread of its team."""
        if not outputs:
            return
        lowering = self.lowering
        terms = self.inside.terms
        if self.team.threads > 1:
            terms = (Comparison(self.team.lane, "==", integer(0)), *terms)
        scope = Scope(self.root, certain=False) if terms else self.root
        values = tuple(self.settled(output.value) for output in outputs)
        lowering.prepare(values)
        for output, value in zip(outputs, values, strict=True):
            result = lowering.lower(value, scope)
            subscripts = tuple(to_integer(sub, lowering.symbols) for sub in output.subscripts)
            scope.nodes.append(Store(Access(lowering.arrays[output.target], subscripts, "store"), result))
        if terms:
            self.root.nodes.append(If(Guard(terms), tuple(scope.nodes)))

    def alignments(self) -> tuple[tuple[str, int], ...]:
        """What wide accesses ask of the arguments."""
        spec, width = self.request.context.spec, self.shape.width.count
        return tuple(
            (a.name, width * a.dtype.bytes) for a in spec.arrays if a.name in self.aligned and not a.is_temporary
        )


def _mentions(nodes: tuple[Node, ...], index: Index) -> bool:
    leaves = (leaf for value in usage.values(nodes) for leaf in walk(value))
    return index.symbol in usage.free_symbols(nodes) or any(
        isinstance(leaf, Local) and leaf.name == index.name for leaf in leaves
    )


def _fixed(expr: Expr, along: str) -> Iterator[Expr]:
    """The largest parts that are the same all along the row and are computed from results, not from memory."""
    if isinstance(expr, Reduce):
        for part in (expr.body, *(() if expr.where is None else (expr.where,))):
            yield from _fixed(part, along)
        return
    if isinstance(expr, Op | Select | Cast) and along not in free_indices(expr):
        nodes = list(walk(expr))
        if any(isinstance(n, Local) for n in nodes) and not any(isinstance(n, Read | Reduce) for n in nodes):
            yield expr
            return
    for child in children(expr):
        yield from _fixed(child, along)


def _wish(expr: Expr) -> str:
    """A name for a value that the spec has none for."""
    match expr:
        case Op(name="div", args=(Local(), _)):
            return "mean"
        case Op(name="add"):
            return "total"
        case Op(name=name):
            return {"sub": "difference", "mul": "product", "div": "quotient"}.get(name, f"{name}_value")
    return "value"
