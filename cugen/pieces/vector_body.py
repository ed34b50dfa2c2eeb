"""Statements for several neighbours at once: wide loads, each component's value, wide stores."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cugen.pieces.blocks import define, limit
from cugen.pieces.elementwise import IN_MEMORY, certain_reads, loaded_reads
from cugen.pieces.statements import lower_statements
from cugen.pieces.vectors import is_read, widest_at
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reads import lower_subscript, within
from cugen.plan.memory import Access, Array, Element, Vector
from cugen.plan.nodes import Assign, For, If, Index, Let, Load, Loop, Node, Store
from cugen.plan.request import Request
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer
from cugen.rewrite.dense_indices import index_values
from cugen.spec.expressions import Const, Expr, IndexValue, Local, Read, free_indices, walk
from cugen.spec.model import Statement


@dataclass(frozen=True)
class ConsecutiveElements:
    """`width` neighbours along an index, all of them inside. `wide` are the reads that come in vectors, of all the
    neighbours or of so many; `staged` says where each of them finds what was loaded before."""

    request: Request
    arrays: Mapping[str, Array]
    along: str
    extent: Integer
    width: int
    wide: Mapping[Read, int]
    staged: Mapping[Read, Callable[[Integer], Expr]] = field(default_factory=dict)

    @property
    def statements(self) -> tuple[Statement, ...]:
        return self.request.group.statements

    def is_stored(self, statement: Statement) -> bool:
        role = self.request.context.spec.array(statement.target).role
        return role != "temporary" or statement.target in self.request.stored

    def needs_element_index(self) -> bool:
        """Whether an element's value depends on its own place, not only on the vector's."""
        return self.width > 1 and depends_on_index(self.statements, self.along, (*self.wide, *self.staged))

    def alignments(self) -> tuple[tuple[str, int], ...]:
        """What wide accesses ask of the arguments."""
        if self.width == 1:
            return ()
        widths = {s.target: self.width for s in self.statements if self.is_stored(s)}
        for read, width in self.wide.items():
            widths[read.array] = max(widths.get(read.array, 1), width)
        arrays = self.request.context.spec.arrays
        return tuple(
            (a.name, widths[a.name] * a.dtype.bytes) for a in arrays if a.name in widths and not a.is_temporary
        )


def wide_reads(
    request: Request, arrays: Mapping[str, Array], along: str, width: int, beside: Sequence[Read] = ()
) -> dict[Read, int]:
    """The reads that move along with `width` neighbours, and how many of these one access loads; not those `beside`."""
    found = {}
    for read in certain_reads(request, arrays):
        array = arrays[read.array]
        guarded = is_guarded(read, along)
        moves = along in free_indices(read) and (guarded or (read.boundary is None and not read.exact))
        if read not in beside and moves and array.space in IN_MEMORY:
            count = math.gcd(widest_at(array, read.subscripts, along, request.context).count, width)
            if count == width > 1 or (count > 1 and not guarded):
                found[read] = count
    return found


def is_guarded(read: Read, along: str) -> bool:
    """Whether neighbours are inside the array together, or all of them zeros beyond it."""
    alone = [sub for sub in read.subscripts if along in free_indices(sub)] == [IndexValue(along)]
    return alone and not read.exact and read.boundary is not None and read.boundary.mode == "zero"


def depends_on_index(statements: tuple[Statement, ...], along: str, ready: tuple[Read, ...]) -> bool:
    """Whether the statements mention the index `along` other than in reads that stand ready."""
    for read in loaded_reads(statements):
        if read not in ready and along in free_indices(read):
            return True
    return any(along in index_values(statement.value) for statement in statements)


def vector_body(work: ConsecutiveElements, lowering: Lowering, scope: Scope) -> tuple[Node, ...]:
    """The nodes for the neighbours of which `lowering` knows the first."""
    first = lowering.symbols[work.along]
    places = dict(lowering.symbols)
    number = Index(lowering.names.allocate("v"), integer(0), (0, work.width - 1))
    lowering.ranges[number.symbol] = number.range
    inner = Scope(scope, frozenset((work.along,)))
    gathered: dict[Expr, Integer] = {}
    if work.needs_element_index():
        own = define(work.along, first + number.symbol, lowering)
        limit(own.index, work.extent, lowering)
        lowering.symbols[work.along] = own.index.symbol
        inner.nodes.append(own)

    # The elements that say where others are have names before these are loaded.
    lowering.prepare(tuple(statement.value for statement in work.statements))
    for read in work.wide:
        for sub in read.subscripts:
            if is_read(sub):
                gathered[sub] = lower_subscript(lowering, sub, scope)

    def access(array: str, subscripts: tuple[Expr, ...], kind: str, width: int, ahead: Integer) -> Access:
        symbols = {**places, work.along: places[work.along] + ahead}
        if gathered:
            subs = tuple(gathered[s] if s in gathered else to_integer(s, symbols) for s in subscripts)
            return Access(work.arrays[array], subs, kind, width)
        return Access(work.arrays[array], tuple(to_integer(s, symbols) for s in subscripts), kind, width)

    for read, value in work.staged.items():
        _remember(work, read, value(number.symbol), inner, lowering)
    for read, width in work.wide.items():
        written = any(statement.target == read.array for statement in work.statements)
        wish = f"{read.array}_old" if written else read.array
        vector = vector_of(work.arrays[read.array], wish, width, lowering, work.width // width)

        def part(u: Integer, read: Read = read, width: int = width) -> Access:
            return access(read.array, read.subscripts, "load", width, u * width)

        if read.boundary is not None:
            _load_inside(read, vector, part(integer(0)), lowering, scope)
            _remember(work, read, vector.component(number.symbol), inner, lowering)
            continue
        element = load_vectors(vector, part, lowering, scope.home(free_indices(read)))
        _remember(work, read, element(number.symbol), inner, lowering)
    lower_statements(work.request, lowering, inner)
    results: list[Node] = []
    body: list[Node] = []
    stored = iter([statement for statement in work.statements if work.is_stored(statement)])
    for node in inner.nodes:
        if isinstance(node, Store):
            statement = next(stored)
            vector = vector_of(work.arrays[statement.target], statement.target, work.width, lowering)
            scope.nodes.append(Let(vector, None, mutable=True))
            body.append(Assign(vector.component(number.symbol), node.value))
            target = access(statement.target, statement.subscripts, "store", work.width, integer(0))
            results.append(Store(target, vector))
        else:
            body.append(node)
    loop = For(Loop(number, integer(0), integer(work.width), unroll=True), tuple(body))
    return (*scope.nodes, loop, *results)


def _load_inside(read: Read, vector: Vector, access: Access, lowering: Lowering, scope: Scope) -> None:
    """A vector that is loaded where it is inside the array; zeros elsewhere."""
    subscripts, guard, _ = within(lowering, read, access.subscripts, access.array, scope)
    access = replace(access, subscripts=subscripts)
    if guard is None:
        scope.nodes.append(Load(vector, access))
        return
    loaded = Assign(vector, Element(access.array.symbol, access.array.dtype.compute, access))
    scope.nodes += [Let(vector, Const(0, vector.dtype), mutable=True), If(guard, (loaded,))]


def vector_of(array: Array, wish: str, width: int, lowering: Lowering, count: int = 1) -> Vector:
    """`x4` for four elements of x; or a row of `count` such vectors."""
    name = wish.lower()
    separator = "_" if name[-1].isdigit() else ""
    name = lowering.names.allocate(f"{name}{separator}{width}")
    return Vector(name, array.dtype.compute, array.dtype, width, count if count > 1 else 0)


def load_vectors(
    vector: Vector, access: Callable[[Integer], Access], lowering: Lowering, scope: Scope
) -> Callable[[Integer], Expr]:
    """Loads a vector, or all of a row; what comes back says where each of their elements is."""
    if not vector.count:
        scope.nodes.append(Load(vector, access(integer(0))))
        return vector.component
    index = Index(lowering.names.allocate("u"), integer(0), (0, vector.count - 1))
    lowering.ranges[index.symbol] = index.range
    load = Load(vector.indexed(index.symbol), access(index.symbol))
    loop = Loop(index, integer(0), integer(vector.count), unroll=True)
    scope.nodes += [Let(vector, None, mutable=True), For(loop, (load,))]
    width = integer(vector.width)
    return lambda place: vector.indexed(FloorDiv(place, width)).component(Mod(place, width))


def _remember(work: ConsecutiveElements, read: Read, value: Expr, scope: Scope, lowering: Lowering) -> None:
    """An element that several places mention, or that says where another one is, gets a name of its own."""
    mentions = sum(1 for s in work.statements for node in walk(s.value) if node == read)
    if mentions > 1 or read in lowering.subscripts:
        name = read.array.lower()
        is_taken = name == lowering.arrays[read.array].symbol
        local = Local(lowering.names.allocate(f"{name}_value" if is_taken else name), read.dtype)
        named = Load(local, value.access) if isinstance(value, Element) else Let(local, value)
        scope.nodes.append(named)
        value = local
    scope.remember(read, value)
