"""Statements for several neighbours at once: wide loads, each component's value, wide stores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cugen.families.base import Request
from cugen.families.blocks import define, limit
from cugen.families.canonical import index_values
from cugen.families.elementwise import loaded_reads
from cugen.families.statements import lower_statements
from cugen.plan.ir import Access, Array, Assign, Element, For, Index, Let, Load, Loop, Node, Store, Vector
from cugen.plan.lowering import Lowering
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer, integer
from cugen.spec.expressions import Expr, IndexValue, Local, Read, free_indices, walk
from cugen.spec.model import Statement


@dataclass(frozen=True)
class Neighbours:
    """`width` neighbours along an index, all of them inside. `wide` are the reads that one access loads for all of
    them; `staged` says where each of them finds what was loaded before."""

    request: Request
    arrays: Mapping[str, Array]
    along: str
    extent: Integer
    width: int
    wide: tuple[Read, ...]
    staged: Mapping[Read, Callable[[Integer], Expr]] = field(default_factory=dict)

    @property
    def statements(self) -> tuple[Statement, ...]:
        return self.request.group.statements

    def is_stored(self, statement: Statement) -> bool:
        role = self.request.context.spec.array(statement.target).role
        return role != "temporary" or statement.target in self.request.stored

    def needs_own_index(self) -> bool:
        """Whether an element's value depends on its own place, not only on the vector's."""
        return self.width > 1 and depends_on_place(self.statements, self.along, (*self.wide, *self.staged))

    def alignments(self) -> tuple[tuple[str, int], ...]:
        """What wide accesses ask of the arguments."""
        if self.width == 1:
            return ()
        names = {read.array for read in self.wide} | {s.target for s in self.statements if self.is_stored(s)}
        arrays = self.request.context.spec.arrays
        return tuple((a.name, self.width * a.dtype.bytes) for a in arrays if a.name in names and not a.is_temporary)


def depends_on_place(statements: tuple[Statement, ...], along: str, ready: tuple[Read, ...]) -> bool:
    """Whether the statements mention the index `along` other than in reads that stand ready."""
    for read in loaded_reads(statements):
        if read not in ready and IndexValue(along) in read.subscripts:
            return True
    return any(along in index_values(statement.value) for statement in statements)


def vector_body(work: Neighbours, lowering: Lowering, scope: Scope) -> tuple[Node, ...]:
    """The nodes for the neighbours of which `lowering` knows the first."""
    first = lowering.symbols[work.along]
    places = dict(lowering.symbols)
    number = Index(lowering.names.allocate("v"), integer(0), (0, work.width - 1))
    lowering.ranges[number.symbol] = number.range
    inner = Scope(scope, frozenset((work.along,)))
    if work.needs_own_index():
        own = define(work.along, first + number.symbol, lowering)
        limit(own.index, work.extent, lowering)
        lowering.symbols[work.along] = own.index.symbol
        inner.nodes.append(own)

    def access(array: str, subscripts: tuple[Expr, ...], kind: str) -> Access:
        return Access(work.arrays[array], tuple(to_integer(s, places) for s in subscripts), kind, work.width)

    for read, value in work.staged.items():
        _remember(work, read, value(number.symbol), inner, lowering)
    for read in work.wide:
        written = any(statement.target == read.array for statement in work.statements)
        wish = f"{read.array}_old" if written else read.array
        vector = vector_of(work.arrays[read.array], wish, work.width, lowering)
        scope.home(free_indices(read)).nodes.append(Load(vector, access(read.array, read.subscripts, "load")))
        _remember(work, read, vector.component(number.symbol), inner, lowering)
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
            results.append(Store(access(statement.target, statement.subscripts, "store"), vector))
        else:
            body.append(node)
    loop = For(Loop(number, integer(0), integer(work.width), unroll=True), tuple(body))
    return (*scope.nodes, loop, *results)


def vector_of(array: Array, wish: str, width: int, lowering: Lowering, count: int = 0) -> Vector:
    """`x4` for four elements of x."""
    name = wish.lower()
    separator = "_" if name[-1].isdigit() else ""
    name = lowering.names.allocate(f"{name}{separator}{width}")
    return Vector(name, array.dtype.compute, array.dtype, width, count)


def _remember(work: Neighbours, read: Read, value: Expr, scope: Scope, lowering: Lowering) -> None:
    """An element that several places mention gets a name of its own."""
    mentions = sum(1 for s in work.statements for node in walk(s.value) if node == read)
    if mentions > 1:
        name = read.array.lower()
        is_taken = name == lowering.arrays[read.array].symbol
        local = Local(lowering.names.allocate(f"{name}_value" if is_taken else name), read.dtype)
        named = Load(local, value.access) if isinstance(value, Element) else Let(local, value)
        scope.nodes.append(named)
        value = local
    scope.remember(read, value)
