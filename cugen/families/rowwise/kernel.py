"""The sweeps over a row as nodes: loops over a thread's elements, and what its team combines after each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from cugen.families.rowwise.config import Shape, is_vector, reads_vector, stored_type
from cugen.families.rowwise.passes.online_softmax import Online, online_pairs, step_online
from cugen.families.rowwise.passes.schedule import Sweep, mentions, moving_reads, shows_place
from cugen.families.rowwise.passes.storage_levels import REGISTERS, Places, Segment, Tier, segments
from cugen.families.rowwise.row_buffers import Room
from cugen.families.rowwise.statements.names import RowNames, wish
from cugen.families.rowwise.statements.recognition import Output, RowWork
from cugen.families.rowwise.statements.results import Results, with_reciprocals
from cugen.families.rowwise.thread_group import RowTeam
from cugen.pieces.block_reduce import Running, first_values
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reductions import ACCUMULATORS, accumulate, combine
from cugen.plan.memory import Access, Element, Vector
from cugen.plan.nodes import Assign, Comparison, Define, For, Guard, If, Index, Let, Load, Loop, Node, Store
from cugen.plan.request import Request
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import INT32_MAX, Integer, bounds, integer
from cugen.spec.expressions import Expr, Local, Op, Read, Reduce, walk
from cugen.spec.types import DType


@dataclass
class Spot:
    """Where a walk is: the slot in a tier, the first element there, and what follows the vector's elements."""

    place: str
    slot: Integer
    at: Integer
    after: list[Node] = field(default_factory=list)


class RowSteps:
    """Builds the nodes of one row, in order, in `root`.

    `inside` is what keeps stores to the rows that there are, where a team may have none of its own."""

    def __init__(
        self,
        request: Request,
        work: RowWork,
        lowering: Lowering,
        shape: Shape,
        team: RowTeam,
        inside: Guard,
    ) -> None:
        self.request, self.work, self.lowering, self.shape = request, work, lowering, shape
        self.team, self.inside = team, inside
        self.column = work.domain.columns[0]
        self.root = Scope()
        self.parts: list[int] = []  # where among the root's nodes each sweep begins
        self.results = Results()
        self.names = RowNames(work, lowering, self.results)
        self.room = Room(work, shape, team, self.names)
        self.aligned: dict[str, None] = {}
        self.own = ""
        self.extent = to_integer(self.column.extent, lowering.symbols)
        self.shortest, self.longest = bounds(self.extent, lowering.ranges)
        width = shape.width.count
        self.part = self._counter("v", width)
        slot = self._counter("s", max((tier.slots for tier in shape.tiers), default=0))
        self.places = Places(self._first_index(), slot, team.place * width, shape.stride, self.extent)
        is_long = any(not tier.is_kept for tier in shape.tiers) and self.shortest >= 1
        self.pairs = online_pairs(shape.tiers[0].sweeps) if is_long else {}
        self.done: dict[Reduce, Online] = {}  # sums that a sweep of maxima computed for what is read anew
        self.straight: dict[str, Integer] = {}  # the place of a tier's only vector

    def _counter(self, name: str, count: int) -> Integer:
        """A number below `count`, which a loop counts."""
        if count <= 1:
            return integer(0)
        index = Index(self.lowering.names.allocate(name), integer(0), (0, count - 1))
        self.lowering.ranges[index.symbol] = index.range
        return index.symbol

    def _first_index(self) -> Index:
        """The first of the thread's elements side by side."""
        lowering, shape, name = self.lowering, self.shape, self.column.name
        sweeps = (sweep for tier in shape.tiers for sweep in tier.sweeps)
        apart = shape.width.count > 1 and any(self._needs_own(sweep) for sweep in sweeps)
        last = max(self.longest - 1, 0)
        if self.longest + shape.stride > INT32_MAX:
            last = self.longest + shape.stride  # the step beyond the last element must not overflow
        beyond = max((tier.start + tier.slots for tier in shape.tiers), default=0) * shape.stride
        name = lowering.names.allocate(f"first_{name}" if apart else name)
        index = Index(name, integer(0), (0, max(last, beyond - 1)))
        lowering.ranges[index.symbol] = (0, last)
        lowering.limits[index.symbol] = self.extent
        return index

    def _own_index(self, at: Integer) -> Index:
        """The place of one of a vector's elements."""
        lowering = self.lowering
        if not self.own:
            self.own = lowering.names.allocate(self.column.name)
        own = Index(self.own, at + self.part, (0, max(self.longest - 1, 0)))
        lowering.ranges[own.symbol] = own.range
        lowering.limits[own.symbol] = self.extent
        return own

    # One sweep

    def sweep(self, number: int, *, everywhere: bool) -> None:
        """The loops over the thread's elements, and the team's results of its reductions."""
        lowering, root, tiers = self.lowering, self.root, self.shape.tiers
        self.parts.append(len(root.nodes))
        # What is read anew was read last before this sweep: it may still be near. Shared memory is filled first, while
        # registers are free.
        order = sorted(tiers, key=lambda tier: (tier.is_kept, tier.place == REGISTERS))
        for tier in order:
            values = self._values(tier.sweeps[number])
            lowering.prepare(values)
            self.names.hoist(values, self.column.name, root)
        runs = {reduction: self._running(reduction) for reduction in tiers[0].sweeps[number].reductions}
        for reduction, run in runs.items():
            root.nodes += self._first_values(reduction, run)
        for tier in order:
            for expr in tier.sweeps[number].computed:
                root.nodes += self.room.keep(tier, expr)
            if self._has_work(tier, number):
                lowering.prepare(self._values(tier.sweeps[number]))
                for segment in segments(tier, self.shape.stride, self.shortest, self.longest):
                    own = {r: run for r, run in runs.items() if tier.is_kept or r not in self.done}
                    root.nodes += self._walk(tier.sweeps[number], own, segment)
        first = not any(sweep.reductions for sweep in tiers[0].sweeps[:number])
        root.nodes += self.team.combine(tuple(runs.values()), lowering, everywhere=everywhere, first=first)
        self.results.locals.update({reduction: run.value for reduction, run in runs.items()})

    def _has_work(self, tier: Tier, number: int) -> bool:
        sweep = tier.sweeps[number]
        left = tier.is_kept or any(reduction not in self.done for reduction in sweep.reductions)
        return bool(sweep.computed or sweep.outputs or (sweep.reductions and left))

    def _first_values(self, reduction: Reduce, run: Running) -> tuple[Node, ...]:
        """Where the running values start, and those that stand for two reductions of what is read anew."""
        if reduction in self.done:
            online = self.done[reduction]
            return (Let(run.value, online.at(self.results.locals[online.peak]), mutable=True),)
        if reduction not in self.pairs:
            return first_values(run)
        names, total = self.lowering.names, self.pairs[reduction]
        greatest = Local(names.allocate("greatest"), reduction.dtype)
        online = Online(reduction, total, greatest, Local(names.allocate("share"), total.dtype))
        self.done[total] = online
        return (*first_values(run), *online.first_values())

    def _values(self, sweep: Sweep) -> tuple[Expr, ...]:
        inner = map(self.results.settled, sweep.values[: len(sweep.values) - len(sweep.outputs)])
        return (*inner, *map(self._stored_value, sweep.outputs))

    def _running(self, reduction: Reduce) -> Running:
        local = Local(self.names.give(reduction, ACCUMULATORS[reduction.kind]), reduction.dtype)
        if reduction.kind not in ("argmax", "argmin"):
            return Running(reduction.kind, local)
        name = "largest" if reduction.kind == "argmax" else "smallest"
        return Running(reduction.kind, local, Local(self.lowering.names.allocate(name), reduction.body.dtype))

    def _stored_value(self, output: Output) -> Expr:
        """What is stored. Where that is rounded to fewer bits, quotients by what is the same for the row are computed
        from its reciprocal: a division of each element takes longer than memory does for so few bytes."""
        value = self.results.settled(output.value)
        is_narrow = self.lowering.arrays[output.target].dtype.bits <= 16
        if not is_narrow:
            return value
        return with_reciprocals(value, self.column.name, self.results, self.room.holds)

    def _is_vector(self, expr: Expr) -> bool:
        return reads_vector(expr, self.work, self.shape.width.count)

    def _needs_own(self, sweep: Sweep) -> bool:
        """Whether an element's own place matters, not only the vector's."""
        along, arrays = self.column.name, self.work.arrays
        if shows_place(sweep, along) or not all(map(self._is_vector, moving_reads(sweep, along))):
            return True
        return not all(is_vector(arrays[o.target], o.subscripts, along) for o in sweep.outputs)

    def _walk(self, sweep: Sweep, runs: dict[Reduce, Running], segment: Segment) -> tuple[Node, ...]:
        """The sweep over one segment: vector by vector, and element by element in each."""
        lowering, along, width = self.lowering, self.column.name, self.shape.width.count
        spot = self._spot(segment)
        around = self.root if segment.is_straight else self._inside(self.root)
        inner = self._inside(around) if width > 1 else around
        lowering.symbols[along] = spot.at
        if width > 1 and self._needs_own(sweep):
            own = self._own_index(spot.at)
            lowering.symbols[along] = own.symbol
            inner.nodes.append(Define(own))
        self._recall(sweep, spot, around, inner)
        self._load(sweep, spot, around, inner)
        self._compute(sweep, spot, around, inner)
        for reduction, run in runs.items():
            settled = self.results.settled(reduction)
            assert isinstance(settled, Reduce)
            if reduction in self.pairs and not segment.tier.is_kept:
                online = self.done[self.pairs[reduction]]
                value = lowering.lower(settled.body, inner)
                spot.after += step_online(online, value, lowering, (around, inner), self.part, width)
            else:
                accumulate(lowering, settled, run.value, inner, run.extreme)
        self._outputs(sweep, spot, around, inner)
        del lowering.symbols[along]
        if width > 1 and inner.nodes:
            each = Index(str(self.part), integer(0), (0, width - 1))
            around.nodes.append(For(Loop(each, integer(0), integer(width), unroll=True), tuple(inner.nodes)))
        terms = self.inside.terms if sweep.outputs else ()
        if segment.is_straight:
            return (If(Guard(terms), tuple(spot.after)),) if terms and spot.after else tuple(spot.after)
        nodes = self.places.around(segment, (*around.nodes, *spot.after), terms)
        if segment.tier.is_kept:
            return nodes
        seen = ((runs[peak], self.done[total].greatest) for peak, total in self.pairs.items() if peak in runs)
        return (*nodes, *(Assign(run.value, combine(run.kind, run.value, greatest)) for run, greatest in seen))

    def _inside(self, scope: Scope) -> Scope:
        return Scope(scope, frozenset((self.column.name,)), certain=self.shortest >= 1 or scope is not self.root)

    def _spot(self, segment: Segment) -> Spot:
        """Where the walk over a segment is."""
        slot, first = self.places.slot_of(segment), self.places.first
        if not segment.is_straight:
            return Spot(segment.tier.place, slot, first.symbol)
        place, start = segment.tier.place, self.places.start_of(segment)
        if self.shape.width.count == 1 and place not in self.straight:
            index = Index(self.lowering.names.allocate(self.column.name), start, first.range)
            self.lowering.ranges[index.symbol] = (0, max(self.longest - 1, 0))
            self.root.nodes.append(Define(index))
            self.straight[place] = index.symbol
        return Spot(place, slot, self.straight.get(place, start))

    # What is done at each element

    def _recall(self, sweep: Sweep, spot: Spot, around: Scope, inner: Scope) -> None:
        shown = mentions(sweep)
        for expr in sweep.known:
            settled = self.results.settled(expr)
            kept = self.room.kept[spot.place, settled]
            if kept.is_shared and kept.width > 1:
                vector = self._vector(expr, kept.element, around)
                around.nodes.append(Load(vector, kept.access(spot.slot, "load")))
                value: Expr = vector.component(self.part)
            else:
                value = kept.get(spot.slot, self.part)
            inner.remember(settled, self._named(expr, value, self._uses(expr, shown), inner))

    def _uses(self, expr: Expr, shown: Mapping[Expr, int]) -> int:
        """How often the text shows a value; what is a subscript needs a name in any case."""
        return shown.get(expr, 0) + 2 * (expr in self.lowering.subscripts)

    def _named(self, expr: Expr, value: Expr, count: int, scope: Scope) -> Expr:
        """The value, under a name where the text shows it more than once."""
        if count < 2 or (isinstance(value, Local) and type(value) is Local):
            return value
        name = wish(expr)
        taken = isinstance(expr, Read) and name == self.lowering.arrays[expr.array].symbol
        name = self.lowering.name_for(expr, f"{name}_value" if taken else name, scope)
        scope.nodes.append(Let(Local(name, expr.dtype), value))
        return Local(name, expr.dtype)

    def _load(self, sweep: Sweep, spot: Spot, around: Scope, inner: Scope) -> None:
        """Wide loads, into what is kept or into vectors of their own; the rest is loaded where it is used."""
        shown = mentions(sweep)
        for read in filter(self._is_vector, moving_reads(sweep, self.column.name)):
            vector = self._vector(read, self.lowering.arrays[read.array].dtype, around)
            source = self._access(read.array, read.subscripts, "load", spot)
            kept = self.room.kept[spot.place, read] if read in sweep.computed else None
            if kept is None or kept.element != vector.element:
                around.nodes.append(Load(vector, source))
                if kept is not None:
                    inner.remember(read, vector.component(self.part))
            else:
                around.nodes += kept.fill(spot.slot, vector, source)
                vector = kept.vector.one(spot.slot) if kept.vector is not None else vector
            if uses := self._uses(read, shown):
                inner.remember(read, self._named(read, vector.component(self.part), uses, inner))

    def _compute(self, sweep: Sweep, spot: Spot, around: Scope, inner: Scope) -> None:
        shown = mentions(sweep)
        for expr in sorted(sweep.computed, key=lambda e: sum(1 for _ in walk(e))):
            settled = self.results.settled(expr)
            kept = self.room.kept[spot.place, settled]
            if self._is_vector(expr) and kept.element == stored_type(expr, self.work):
                continue  # filled as it was loaded
            value = self.lowering.lower(settled, inner)
            if shown.get(expr, 0):
                value = self._named(expr, value, 2, inner)
                inner.remember(settled, value)
            else:
                value = _unnamed(value, inner)
            if kept.is_shared and kept.width > 1:
                self._collect(expr, kept.access(spot.slot, "store"), value, spot, around, inner)
            else:
                inner.nodes.append(kept.put(spot.slot, self.part, value))

    def _outputs(self, sweep: Sweep, spot: Spot, around: Scope, inner: Scope) -> None:
        """Stores of what the row becomes; wide ones follow the loop over a vector's elements."""
        for output in sweep.outputs:
            value = self.lowering.lower(self._stored_value(output), inner)
            array = self.work.arrays[output.target]
            if self.shape.width.count > 1 and is_vector(array, output.subscripts, self.column.name):
                target = self._access(output.target, output.subscripts, "store", spot)
                name = Read(output.target, output.subscripts, output.value.dtype)
                self._collect(name, target, value, spot, around, inner)
            else:
                subscripts = tuple(to_integer(sub, self.lowering.symbols) for sub in output.subscripts)
                inner.nodes.append(Store(Access(self.lowering.arrays[output.target], subscripts, "store"), value))

    def _collect(self, name: Expr, target: Access, value: Expr, spot: Spot, around: Scope, inner: Scope) -> None:
        """A vector of one value of each neighbour, stored at once."""
        vector = self._vector(name, target.array.dtype, around)
        around.nodes.append(Let(vector, None, mutable=True))
        inner.nodes.append(Assign(vector.component(self.part), value))
        spot.after.append(Store(target, vector))

    def _vector(self, expr: Expr, element: DType, scope: Scope) -> Vector:
        """`x4` for four elements of x."""
        name, width = wish(expr), self.shape.width.count
        name = f"{name}{'_' if name[-1].isdigit() else ''}{width}"
        key = Op("vector", (expr,), expr.dtype)
        return Vector(self.lowering.name_for(key, name, scope), element.compute, element, width)

    def _access(self, array: str, subscripts: tuple[Expr, ...], kind: str, spot: Spot) -> Access:
        self.aligned[array] = None
        symbols = {**self.lowering.symbols, self.column.name: spot.at}
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
            terms = (Comparison(self.team.place, "==", integer(0)), *terms)
        scope = Scope(self.root, certain=False) if terms else self.root
        values = tuple(self.results.settled(output.value) for output in outputs)
        lowering.prepare(values)
        for output, value in zip(outputs, values, strict=True):
            result = lowering.lower(value, scope)
            subscripts = tuple(to_integer(sub, lowering.symbols) for sub in output.subscripts)
            scope.nodes.append(Store(Access(lowering.arrays[output.target], subscripts, "store"), result))
        if terms:
            self.root.nodes.append(If(Guard(terms), tuple(scope.nodes)))

    def sweeps(self) -> Iterator[tuple[str, tuple[Node, ...]]]:
        """The nodes of each sweep that has any, those of what follows with the last."""
        ends = [*self.parts[1:], len(self.root.nodes)]
        for number, (start, end) in enumerate(zip(self.parts, ends, strict=True)):
            if start < end:
                yield f"sweep{number}", tuple(self.root.nodes[start:end])

    def alignments(self) -> tuple[tuple[str, int], ...]:
        """What wide accesses ask of the arguments."""
        spec, width = self.request.context.spec, self.shape.width.count
        return tuple(
            (a.name, width * a.dtype.bytes) for a in spec.arrays if a.name in self.aligned and not a.is_temporary
        )


def _unnamed(value: Expr, scope: Scope) -> Expr:
    """The element itself in place of a name that it was just given for one use."""
    match scope.nodes[-1:]:
        case [Load(local=local, access=access, guard=None)] if local == value:
            scope.nodes.pop()
            return Element.of(access)
    return value
