"""Elementwise and broadcast statements: each thread computes one element, or a vector of neighbours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from cugen.families.base import Family, Refusal, Request, Tunable, refuse_tunables
from cugen.families.blocks import Blocks, define, lay_blocks, limit, thread
from cugen.families.elementwise import flattened, form_refusals, loaded_reads, placement_refusals
from cugen.families.grid import fastest_first
from cugen.families.kernels import assemble, new_lowering
from cugen.families.statements import lower_statements
from cugen.families.vectors import Width, divisor, widest
from cugen.plan.ir import (
    Access,
    Array,
    Assign,
    Comparison,
    Define,
    For,
    Guard,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Loop,
    Node,
    ReturnUnless,
    Store,
    Vector,
)
from cugen.plan.lowering import Lowering
from cugen.plan.names import Names
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer, bounds, ceil_div, integer
from cugen.spec import expressions as spec
from cugen.spec.expressions import Expr, IndexValue, Local, Read, walk
from cugen.spec.model import Statement

_SIZES = (1, 2, 4, 8, 16)
_THREADS = 256
_VECTOR = Tunable(
    "vector",
    _SIZES,
    "widest",
    "elements in each thread, moved with one access of at most 16 bytes; by default as many as alignment allows",
)
_IN_MEMORY = ("global", "readonly")  # what threads of a warp load side by side; constants are loaded one by one


@dataclass(frozen=True, slots=True)
class Work:
    """What is computed over which indices, the one that walks memory contiguously first; `most` is how many neighbours
    along it a thread may take at once."""

    request: Request  # its statements over one index where all arrays are dense and alike
    arrays: Mapping[str, Array]
    order: tuple[spec.Index, ...]
    most: Width

    @property
    def along(self) -> str:
        return self.order[0].name

    @property
    def statements(self) -> tuple[Statement, ...]:
        return self.request.group.statements

    @property
    def wide_reads(self) -> tuple[Read, ...]:
        """The reads from global memory that move along with the vector's elements."""
        return tuple(read for read in loaded_reads(self.statements) if self._moves(read.array, read.subscripts))

    def _moves(self, array: str, subscripts: tuple[Expr, ...]) -> bool:
        return IndexValue(self.along) in subscripts and self.arrays[array].space in _IN_MEMORY

    def is_stored(self, statement: Statement) -> bool:
        role = self.request.context.spec.array(statement.target).role
        return role != "temporary" or statement.target in self.request.stored


def refusals(request: Request) -> tuple[Refusal, ...]:
    found = [*form_refusals(request), *placement_refusals(request, {}), *refuse_tunables(request, (_VECTOR,))]
    return tuple(found) if found else tuple(_schedule_refusals(request, _recognise(request)))


def _schedule_refusals(request: Request, work: Work) -> Iterator[Refusal]:
    block, sides = dict(request.schedule.block), [index.name for index in work.order[:2]]
    for name, size in request.schedule.block:
        if name not in [index.name for index in request.group.statements[0].indices]:
            yield Refusal(f"has blocks over output indices only, and {name} is none", f"schedule.block.{name}")
        elif size != 1 and name not in sides:
            yield Refusal(f"a block has one {name}: it is flat along {' and '.join(sides)}", f"schedule.block.{name}")
    for name, size in request.schedule.thread:
        if name != work.along and size != 1:
            yield Refusal(f"a thread's elements are neighbours along {work.along}", f"schedule.thread.{name}")
    if request.schedule.step:
        yield Refusal("stages nothing step by step", "schedule.step")
    for asked, key in _asked(request, work):
        if asked not in _SIZES:
            yield Refusal(f"a thread may have {', '.join(map(str, _SIZES))} elements, not {asked}", key)
        elif asked > work.most.count:
            yield Refusal(f"{asked} elements at once are too many: {work.most.reason}", key)
        elif block.get(work.along, asked) % asked:
            reason = f"a thread's {asked} elements don't divide the block's {block[work.along]}"
            yield Refusal(reason, f"schedule.block.{work.along}")
    if len({asked for asked, _ in _asked(request, work)}) > 1:
        yield Refusal("vector and thread are the same number here, and they differ", "schedule.vector")


def _asked(request: Request, work: Work) -> list[tuple[int, str]]:
    """The elements of a thread that the schedule asks for, each with its key."""
    found = []
    vector = dict(request.schedule.tunables).get("vector")
    if isinstance(vector, int):
        found.append((vector, "schedule.vector"))
    if work.along in (own := dict(request.schedule.thread)):
        found.append((own[work.along], f"schedule.thread.{work.along}"))
    return found


def _recognise(request: Request) -> Work:
    context = request.context
    flat = flattened(request)
    if flat is not None:
        statements, arrays = flat
        work_request = replace(request, group=replace(request.group, statements=statements))
        work = Work(work_request, arrays, statements[0].indices, Width(max(_SIZES), ""))
    else:
        order = fastest_first(request)
        work = Work(request, context.arrays, order, Width(max(_SIZES), ""))
    places = [(read.array, read.subscripts) for read in work.wide_reads]
    places += [(s.target, s.subscripts) for s in work.statements if work.is_stored(s)]
    widths = [widest(work.arrays[array], subscripts, work.along, context) for array, subscripts in places]
    return replace(work, most=min(widths, key=lambda width: width.count))


def _width(work: Work, extent: Integer, lowering: Lowering) -> int:
    """The schedule's, or the widest that alignment allows and one row of the output fills."""
    asked = _asked(work.request, work)
    if asked:
        return asked[0][0]
    width, longest = work.most.count, bounds(extent, lowering.ranges)[1]
    size = dict(work.request.schedule.block).get(work.along)
    while width > max(longest, 1) or (size is not None and size % width):
        width //= 2
    return width


def build(request: Request) -> Kernel:
    work = _recognise(request)
    lowering = new_lowering(request)
    lowering.arrays = work.arrays
    return _Builder(work, lowering).kernel()


class _Builder:
    """The kernel of one group."""

    def __init__(self, work: Work, lowering: Lowering) -> None:
        self.work, self.lowering = work, lowering
        self.context = work.request.context
        self.extents = [to_integer(index.extent, lowering.symbols) for index in work.order]
        self.width = _width(work, self.extents[0], lowering)
        self.vectors: dict[Read, Vector] = {}

    def kernel(self) -> Kernel:
        blocks, threads = self._blocks()
        nodes = self._indices(blocks, threads)
        parts = (("indices", nodes), ("elements", self._elements()))
        kernel = assemble(
            self.work.request,
            self.lowering,
            "map",
            parts,
            blocks.grid,
            (threads[0], threads[1], 1),
            alignments=self._alignments(),
        )
        return replace(kernel, reasons=self._reasons())

    def _blocks(self) -> tuple[Blocks, tuple[int, int]]:
        asked = dict(self.work.request.schedule.block)
        slots = ceil_div(self.extents[0], self.width)
        if asked:
            sizes = [asked.get(index.name, 1) for index in self.work.order[:2]]
            threads = (max(sizes[0] // self.width, 1), sizes[1] if len(sizes) > 1 else 1)
        elif len(self.extents) == 1:
            threads = (_THREADS, 1)
        else:
            threads = self._balanced(slots)
        counts = [
            ceil_div(slots, threads[0]) if self.width == 1 else ceil_div(self.extents[0], self.width * threads[0])
        ]
        counts += [ceil_div(extent, size) for extent, size in zip(self.extents[1:2], threads[1:], strict=False)]
        return lay_blocks([*counts, *self.extents[2:]], self.lowering, self.work.request.target), threads

    def _balanced(self, slots: Integer) -> tuple[int, int]:
        """32 x 8 threads, or more along the one where the other is shorter than that."""
        most = [_power_of_two(bounds(count, self.lowering.ranges)[1]) for count in (slots, self.extents[1])]
        columns = min(32, most[0])
        rows = min(_THREADS // columns, most[1])
        return min(_THREADS // rows, most[0]), rows

    def _indices(self, blocks: Blocks, threads: tuple[int, int]) -> tuple[Node, ...]:
        lowering, order = self.lowering, self.work.order
        nodes: list[Define] = []
        terms: list[Comparison] = []
        for axis, (index, extent, place) in enumerate(zip(order, self.extents, blocks.places, strict=True)):
            size = threads[axis] if axis < 2 else 1
            definition = place * size + (thread("xy"[axis], size, lowering) if axis < 2 else 0)
            wish = index.name
            if axis == 0:
                definition = definition * self.width
                wish = f"{index.name}0" if self.width > 1 and self._needs_own_index() else index.name
            node = define(wish, definition, lowering)
            nodes.append(node)
            lowering.symbols[index.name] = node.index.symbol
            if axis == 0 and self._has_tail():
                continue
            if divisor(extent, self.context) % (size * (self.width if axis == 0 else 1)):
                terms.append(Comparison(node.index.symbol, "<", extent))
            limit(node.index, extent, lowering)
        guard = (ReturnUnless(Guard(tuple(reversed(terms)))),) if terms else ()
        return (*reversed(nodes), *guard)

    def _has_tail(self) -> bool:
        """Whether the last elements may fill no vector."""
        return divisor(self.extents[0], self.context) % self.width != 0

    def _needs_own_index(self) -> bool:
        """Whether an element's value depends on its own place, not only on the vector's."""
        wide = self.work.wide_reads
        narrow = [read for read in loaded_reads(self.work.statements) if read not in wide]
        if any(IndexValue(self.work.along) in read.subscripts for read in narrow):
            return True
        return any(self.work.along in _places(statement.value) for statement in self.work.statements)

    # What a thread does

    def _elements(self) -> tuple[Node, ...]:
        if self.width == 1:
            scope = Scope()
            lower_statements(self.work.request, self.lowering, scope)
            return tuple(scope.nodes)
        first = self.lowering.symbols[self.work.along]
        if not self._has_tail():
            return self._whole(first)
        guard = Guard((Comparison(first + (self.width - 1), "<", self.extents[0]),))
        return (If(guard, self._whole(first), self._tail(first)),)

    def _branch(self) -> Lowering:
        """A lowering whose names end with its branch."""
        own = Names(self.lowering.names)
        return Lowering(
            own, self.lowering.arrays, dict(self.lowering.symbols), self.lowering.ranges, self.lowering.limits
        )

    def _whole(self, first: Integer) -> tuple[Node, ...]:
        """The vector path: wide loads, the statements for each component, wide stores."""
        work, lowering = self.work, self._branch()
        places = {index.name: lowering.symbols[index.name] for index in work.order}
        scope = Scope()
        number = Index(lowering.names.allocate("v"), integer(0), (0, self.width - 1))
        lowering.ranges[number.symbol] = number.range
        inner = Scope(scope, frozenset((work.along,)))
        if self._needs_own_index():
            own = define(work.along, first + number.symbol, lowering)
            limit(own.index, self.extents[0], lowering)
            lowering.symbols[work.along] = own.index.symbol
            inner.nodes.append(own)
        for read in work.wide_reads:
            written = any(statement.target == read.array for statement in work.statements)
            vector = self._vector(read.array, f"{read.array}_old" if written else read.array, lowering)
            scope.nodes.append(Load(vector, self._access(read.array, read.subscripts, places, "load")))
            self._remember(read, vector.component(number.symbol), inner, lowering)
        lower_statements(work.request, lowering, inner)
        results: list[Node] = []
        body: list[Node] = []
        stored = iter([statement for statement in work.statements if work.is_stored(statement)])
        for node in inner.nodes:
            if isinstance(node, Store):
                statement = next(stored)
                vector = self._vector(statement.target, statement.target, lowering)
                scope.nodes.append(Let(vector, None, mutable=True))
                body.append(Assign(vector.component(number.symbol), node.value))
                results.append(Store(self._access(statement.target, statement.subscripts, places, "store"), vector))
            else:
                body.append(node)
        loop = For(Loop(number, integer(0), integer(self.width), unroll=True), tuple(body))
        return (*scope.nodes, loop, *results)

    def _remember(self, read: Read, component: Expr, scope: Scope, lowering: Lowering) -> None:
        """A component that several places mention gets a name of its own."""
        mentions = sum(1 for s in self.work.statements for node in walk(s.value) if node == read)
        if mentions > 1:
            name = read.array.lower()
            is_taken = name == lowering.arrays[read.array].symbol
            local = Local(lowering.names.allocate(f"{name}_value" if is_taken else name), read.dtype)
            scope.nodes.append(Let(local, component))
            component = local
        scope.remember(read, component)

    def _tail(self, first: Integer) -> tuple[Node, ...]:
        """What is left of the last vector, element by element."""
        lowering, extent = self._branch(), self.extents[0]
        index = Index(lowering.names.allocate("tail"), first, (0, max(bounds(extent, lowering.ranges)[1] - 1, 0)))
        lowering.ranges[index.symbol] = index.range
        lowering.limits[index.symbol] = extent
        lowering.symbols[self.work.along] = index.symbol
        scope = Scope()
        inner = Scope(scope, frozenset((self.work.along,)), certain=False)
        lower_statements(self.work.request, lowering, inner)
        return (*scope.nodes, For(Loop(index, first, extent, rolled=True), tuple(inner.nodes)))

    def _vector(self, array: str, wish: str, lowering: Lowering) -> Vector:
        """`x4` for four elements of x."""
        name = wish.lower()
        separator = "_" if name[-1].isdigit() else ""
        dtype = lowering.arrays[array].dtype
        return Vector(lowering.names.allocate(f"{name}{separator}{self.width}"), dtype.compute, dtype, self.width)

    def _access(self, array: str, subs: tuple[Expr, ...], places: Mapping[str, Integer], kind: str) -> Access:
        symbols = {**self.lowering.symbols, **places}
        return Access(self.work.arrays[array], tuple(to_integer(s, symbols) for s in subs), kind, self.width)

    # What the caller must know

    def _alignments(self) -> tuple[tuple[str, int], ...]:
        if self.width == 1:
            return ()
        wide = {read.array for read in self.work.wide_reads}
        wide |= {s.target for s in self.work.statements if self.work.is_stored(s)}
        arrays = self.context.spec.arrays
        return tuple((a.name, self.width * a.dtype.bytes) for a in arrays if a.name in wide and not a.is_temporary)

    def _reasons(self) -> tuple[str, ...]:
        if self.width == 1:
            return ("elementwise, one element in each thread", self.work.most.reason)
        return (f"elementwise, {self.width} neighbours along {self.work.along} in each thread", self.work.most.reason)


def _places(expr: Expr) -> frozenset[str]:
    """The indices whose value `expr` uses other than in subscripts."""
    if isinstance(expr, Read):
        return frozenset()
    if isinstance(expr, IndexValue):
        return frozenset((expr.name,))
    return frozenset[str]().union(*map(_places, spec.children(expr)))


def _power_of_two(count: int) -> int:
    """The least power of two that covers `count`."""
    return 1 << max(count - 1, 0).bit_length()


FAMILY = Family(
    "map",
    rank=10,
    doc="elementwise and broadcast statements, a vector of neighbours in each thread",
    refusals=refusals,
    build=build,
    tunables=(_VECTOR,),
)
