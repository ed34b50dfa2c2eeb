"""Statements for a vector of consecutive elements: vector loads, a loop over the components, vector stores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cugen.pieces.blocks import define_index
from cugen.pieces.elementwise import IN_MEMORY, certain_reads, loaded_reads
from cugen.pieces.loop_variables import loop_variable, repeated, shared_loop_variable, unrolled, value_of
from cugen.pieces.statements import lower_statements
from cugen.pieces.structures.numbered_elements import GatheredStores, NumberedElements, numbered_elements
from cugen.pieces.structures.runs import Run
from cugen.pieces.vectors import ElementRef, is_computed, runs_backwards, widest_at
from cugen.plan.alignment import divisor
from cugen.plan.context import Context
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reads import lower_subscript, within
from cugen.plan.memory import ADDRESSED, Access, Array, Component, Element, Vector
from cugen.plan.nodes import Assign, Comparison, Copy, For, Guard, If, Index, Let, Load, Loop, Node, Section, Store
from cugen.plan.request import Request
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import are_distinct, to_integer
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer
from cugen.plan.traversal.usage import mentions
from cugen.rewrite.dense_indices import index_values
from cugen.spec.expressions import Const, Expr, IndexValue, Local, Op, Read, children, free_indices, walk
from cugen.spec.model import Statement

_ZERO = integer(0)


@dataclass(frozen=True)
class ConsecutiveElements:
    """`width` consecutive elements along an index, all in bounds.

    `wide`: reads with vector loads, and their width. `staged`: reads loaded before, and each component's value.
    `loaded` and `stored`: structures that vectors move."""

    request: Request
    arrays: Mapping[str, Array]
    along: str
    extent: Integer
    width: int
    wide: Mapping[Read, int]
    staged: Mapping[Read, Callable[[Integer], Expr]] = field(default_factory=dict)
    loaded: tuple[Run, ...] = ()
    stored: tuple[Run, ...] = ()

    @property
    def statements(self) -> tuple[Statement, ...]:
        return self.request.group.statements

    def fields(self, run: Run) -> Mapping[Read, int]:
        """The reads that a run serves, each with the number of its field."""
        numbers = run.structure.fields
        plain = (read for read in loaded_reads(self.statements) if read.boundary is None and not read.exact)
        return {
            read: numbers[read.array, read.subscripts] for read in plain if (read.array, read.subscripts) in numbers
        }

    def needs_element_index(self) -> bool:
        """Whether the statements need each element's own index, not only the vector's first."""
        loaded = (*self.wide, *self.staged, *(read for run in self.loaded for read in self.fields(run)))
        kept = tuple(read for read in loaded if not _may_be_stored(read, self.statements))
        return self.width > 1 and depends_on_index(self.statements, self.along, kept)


def _may_be_stored(read: Read, statements: Sequence[Statement]) -> bool:
    """Whether a statement may store the element under other subscripts: then it is loaded again after that."""
    stores = (s.subscripts for s in statements if s.target == read.array and s.subscripts != read.subscripts)
    return any(not are_distinct(subscripts, read.subscripts) for subscripts in stores)


def wide_reads(
    request: Request, arrays: Mapping[str, Array], along: str, width: int, excluding: Sequence[Read] = ()
) -> dict[Read, int]:
    """The reads of `width` consecutive elements that vector loads can serve, and the width of each load."""
    widths = {}
    for read in certain_reads(request, arrays):
        array = arrays[read.array]
        guarded = is_guarded(read, along)
        moves = along in free_indices(read) and (guarded or (read.boundary is None and not read.exact))
        if read not in excluding and moves and array.space in IN_MEMORY:
            backwards = runs_backwards(arrays, (read.array, read.subscripts), along, request.context)
            widest = widest_at(array, read.subscripts, along, request.context, backwards=backwards)
            count = math.gcd(widest.count, whole_vectors(read, along, array, request.context) if guarded else 0, width)
            if count == width > 1 or (count > 1 and not guarded):
                widths[read] = count
    return widths


def is_guarded(read: Read, along: str) -> bool:
    """Whether a vector is either wholly in bounds or all zeros, of a width that divides `whole_vectors`."""
    is_bare = [sub for sub in read.subscripts if along in free_indices(sub)] == [IndexValue(along)]
    return is_bare and not read.exact and read.boundary is not None and read.boundary.mode == "zero"


def whole_vectors(read: Read, along: str, array: Array, context: Context) -> int:
    """What the widths of vectors divide that are either wholly in bounds or all zeros, in elements: the extent along an
    index, which may have more values."""
    pairs = zip(read.subscripts, array.shape, strict=True)
    return math.gcd(*(divisor(extent, context) for sub, extent in pairs if along in free_indices(sub)))


def depends_on_index(statements: tuple[Statement, ...], along: str, loaded: tuple[Read, ...]) -> bool:
    """Whether the statements use the index `along` other than in reads that are already `loaded`."""
    moving = (read for read in loaded_reads(statements) if along in free_indices(read))
    uses_value = any(along in index_values(statement.value) for statement in statements)
    return uses_value or any(read not in loaded for read in moving)


def vector_body(work: ConsecutiveElements, lowering: Lowering, scope: Scope) -> tuple[Section, ...]:
    """The sections of one vector: `load_vectors`, `elements` (a loop over the components) and `store_vectors`;
    `lowering` maps `along` to its first element."""
    of_first = dict(lowering.symbols)
    number = loop_variable("v", work.width, lowering)
    element = value_of(number)
    inner = Scope(scope, frozenset((work.along,)))
    if work.needs_element_index():
        inner.nodes.append(define_index(work.along, of_first[work.along] + element, work.extent, lowering))
    lowering.prepare(tuple(statement.value for statement in work.statements))
    accesses = _VectorAccesses.of(work, of_first, lowering, scope)
    _load(work, accesses, element, scope, inner)
    lower_statements(work.request, lowering, inner)

    def fits(statement: Statement) -> bool:
        element_ref = (statement.target, statement.subscripts)
        return work.width > 1 and not any(element_ref in run.structure.fields for run in work.stored)

    body, gathered_stores = gather_stores(inner.nodes, work.request, number, lowering, lambda s, _: fits(s))
    source = copied_vector(body, element)
    if source is not None:
        body = []
    else:
        scope.nodes += [Let(vector, None, mutable=True) for vector in gathered_stores.vectors]
    results = gathered_stores.stores(
        lowering, lambda s, vector: Store(accesses.access(s.target, s, "store", work.width), source or vector)
    )
    components: dict[ElementRef, Component] = {}
    for run in work.stored:
        vectors = RunVectors.of(run, run.structure.array.name, lowering)
        scope.nodes += vectors.declarations()
        components |= {ref: vectors.component(element, number) for ref, number in run.structure.fields.items()}
        results += vectors.store(accesses.of_first, accesses.gathered, lowering)
    remaining = [statement for statement in work.request.stored_statements() if not fits(statement)]
    body = with_assigned_fields(body, remaining, components)
    return (
        Section("load_vectors", tuple(scope.nodes)),
        Section("elements", repeated(number, tuple(body)) if body else ()),
        Section("store_vectors", tuple(results)),
    )


@dataclass(frozen=True)
class _VectorAccesses:
    """Accesses of vectors. `of_first` are the symbols of the first element's indices, `gathered` the computed
    subscripts, which are the same for all elements of a vector."""

    work: ConsecutiveElements
    lowering: Lowering
    of_first: Mapping[str, Integer]
    gathered: Mapping[Expr, Integer]

    @staticmethod
    def of(
        work: ConsecutiveElements, of_first: Mapping[str, Integer], lowering: Lowering, scope: Scope
    ) -> _VectorAccesses:
        """Names the computed subscripts, before the vectors that they address are loaded."""
        gathered: dict[Expr, Integer] = {}
        addresses = (*(read.subscripts for read in work.wide), *(run.structure.subscripts for run in work.loaded))
        for sub in (sub for subscripts in addresses for sub in subscripts):
            if is_computed(sub):
                gathered[sub] = lower_subscript(lowering, sub, scope)
        return _VectorAccesses(work, lowering, of_first, gathered)

    def access(self, array: str, element: Read | Statement, kind: str, width: int, offset: Integer = _ZERO) -> Access:
        """`width` elements from `offset` elements after the first one on."""
        along = self.work.along
        symbols = {**self.lowering.symbols, along: self.of_first[along] + offset}
        subs = tuple(self.gathered[s] if s in self.gathered else to_integer(s, symbols) for s in element.subscripts)
        return Access(self.work.arrays[array], subs, kind, width, span=element.span)


def _load(work: ConsecutiveElements, accesses: _VectorAccesses, element: Integer, scope: Scope, inner: Scope) -> None:
    """Loads vectors in `scope`, and remembers the component of an `element` for each read in `inner`: those that are
    staged, arrays of vectors that one loop loads, single vectors, and structures."""
    lowering, single = accesses.lowering, dict(work.wide)
    for read, value in work.staged.items():
        remember_read(work.request, read, value(element), lowering, inner)
    for numbered in numbered_elements(_whole_vectors(work, lowering), lambda read: read.array):
        remembered = _load_numbered(work, numbered, accesses, scope)
        for read, vector in remembered.items():
            inner.remember(read, vector.component(element))
            del single[read]
    for read, width in single.items():
        remember_read(work.request, read, _load_single(read, width, accesses, element, scope), lowering, inner)
    for run in work.loaded:
        vectors = RunVectors.of(run, _loaded_name(work, run.structure.array.name), lowering)
        scope.nodes += vectors.load(accesses.of_first, accesses.gathered, lowering)
        for read, field_number in work.fields(run).items():
            name_hint = lowering.read_names.get(read, "")
            remember_read(work.request, read, vectors.component(element, field_number), lowering, inner, name_hint)


def _load_single(read: Read, width: int, accesses: _VectorAccesses, element: Integer, scope: Scope) -> Expr:
    """Loads the vectors of a read, each of `width` elements; the component of an `element`, which is counted from the
    end of its vector where the read runs backwards."""
    work, lowering = accesses.work, accesses.lowering
    name_hint, which = _loaded_name(work, read.array), which_of(read, work.wide)
    vector = vector_of(work.arrays[read.array], name_hint, width, lowering, work.width // width, which)
    is_backwards = runs_backwards(work.arrays, (read.array, read.subscripts), work.along, work.request.context)
    lowest = width - 1 if is_backwards else 0  # of a vector, the element with the lowest address

    def part(number: Integer) -> Access:
        return accesses.access(read.array, read, "load", width, number * width + lowest)

    if read.boundary is not None:
        load_inside(read, vector, part(integer(0)), lowering, scope)
        return vector.component(element)
    component = load_vectors(vector, part, lowering, scope.home(free_indices(read)))
    if not is_backwards:
        return component(element)
    is_whole = width == work.width
    return component(lowest - element if is_whole else element - 2 * Mod(element, integer(width)) + lowest)


def copied_vector(nodes: Sequence[Node], element: Integer) -> Vector | None:
    """The vector that the nodes of an `element` copy to another of its type, if that is all they do."""
    match nodes:
        case [Assign(local=Component(vector=target, index=i), value=Component(vector=source, index=j))]:
            is_same = (target.element, target.width) == (source.element, source.width)
            return source if i == j == element and is_same else None
    return None


def _whole_vectors(work: ConsecutiveElements, lowering: Lowering) -> list[Read]:
    """The reads that one unguarded vector load serves, in ascending order."""
    return [
        read
        for read, width in work.wide.items()
        if width == work.width
        and read.boundary is None
        and not (any(map(is_computed, read.subscripts)) or read in lowering.subscripts)
        and not runs_backwards(work.arrays, (read.array, read.subscripts), work.along, work.request.context)
    ]


def _load_numbered(
    work: ConsecutiveElements, numbered: NumberedElements[Read], accesses: _VectorAccesses, scope: Scope
) -> dict[Read, Vector]:
    """An array of vectors with a loop that loads them; the vector of each read."""
    array, lowering = numbered.elements[0].array, accesses.lowering
    name_hint, constants = _loaded_name(work, array), numbered.other_constants
    vectors = vector_of(work.arrays[array], name_hint, work.width, lowering, numbered.count, constants)

    def load(read: Read, number: Integer) -> Load:
        return Load(vectors.indexed(number), accesses.access(array, read, "load", work.width))

    scope.nodes += [Let(vectors, None, mutable=True), numbered.each(lowering, load)]
    return {read: vectors.indexed(integer(n)) for n, read in enumerate(numbered.elements)}


def which_of(element: Read, elements: Iterable[Read]) -> tuple[str, ...]:
    """The constant subscripts of an element, if others of the array are accessed, too."""
    is_alone = all(each == element for each in elements if each.array == element.array)
    return () if is_alone else tuple(str(sub.value) for sub in element.subscripts if isinstance(sub, Const))


def _loaded_name(work: ConsecutiveElements, array: str) -> str:
    written = any(statement.target == array for statement in work.statements)
    return f"{array}_old" if written else array


@dataclass(frozen=True, slots=True)
class RunVectors:
    """The vectors of a run in registers: an array of them if all are moved, else each by its number."""

    run: Run
    vectors: Mapping[int, Vector]

    @staticmethod
    def of(run: Run, name_hint: str, lowering: Lowering) -> RunVectors:
        array = run.structure.array
        if run.is_whole or len(run.used) == 1:
            return RunVectors(run, {run.used[0]: vector_of(array, name_hint, run.vector, lowering, len(run.used))})
        names = {number: f"{name_hint}_{number * run.vector}" for number in run.used}
        return RunVectors(run, {u: vector_of(array, name, run.vector, lowering) for u, name in names.items()})

    def component(self, element: Integer, field_number: int) -> Component:
        number, component = self.run.slot(element, field_number)
        if len(self.vectors) > 1:
            return self.vectors[int(number)].component(component)
        (vector,) = self.vectors.values()
        return (vector.indexed(number) if vector.count else vector).component(component)

    def declarations(self) -> list[Node]:
        return [Let(vector, None, mutable=True) for vector in self.vectors.values()]

    def load(self, symbols: Mapping[str, Integer], known: Mapping[Expr, Integer], lowering: Lowering) -> list[Node]:
        """The loads; `symbols` maps indices to the run's first element, `known` gathered subscripts."""
        declared = self.declarations() if any(vector.count for vector in self.vectors.values()) else []
        moves = self._moves(lowering, lambda u, vector: Load(vector, self.run.access(u, "load", symbols, known)))
        return [*declared, *moves]

    def store(self, symbols: Mapping[str, Integer], known: Mapping[Expr, Integer], lowering: Lowering) -> list[Node]:
        return self._moves(lowering, lambda u, vector: Store(self.run.access(u, "store", symbols, known), vector))

    def _moves(self, lowering: Lowering, move: Callable[[Integer, Vector], Node]) -> list[Node]:
        """An access for each vector."""
        nodes: list[Node] = []
        for number, vector in self.vectors.items():
            if vector.count:
                index = shared_loop_variable("u", (0, vector.count - 1), lowering, "vectors")
                nodes.append(unrolled(index, (move(index.symbol, vector.indexed(index.symbol)),)))
            else:
                nodes.append(move(integer(number), vector))
        return nodes


def with_assigned_fields(
    nodes: Iterable[Node], statements: Iterable[Statement], components: Mapping[ElementRef, Component]
) -> list[Node]:
    """The nodes with assignments to `components` in place of stores; `statements` are those that store, in order."""
    storing = iter(statements)
    changed: list[Node] = []
    for node in nodes:
        if isinstance(node, Store) and node.access.array.space != "register":
            statement = next(storing)
            component = components.get((statement.target, statement.subscripts))
            node = node if component is None else Assign(component, node.value)
        changed.append(node)
    return changed


def row_end_elements(work: ConsecutiveElements, lowering: Lowering, scope: Scope) -> For:
    """Of a vector partly outside its row, the elements inside, one by one; `lowering` maps `along` to the first one."""
    number = loop_variable("v", work.width, lowering)
    first = lowering.symbols[work.along]
    edge = define_index(work.along, first + number.symbol, work.extent, lowering, name_hint="edge")
    for read, value in work.staged.items():
        remember_read(work.request, read, value(number.symbol), lowering, scope)
    lower_statements(work.request, lowering, scope)
    position = edge.index.symbol
    is_inside = Guard((Comparison(position, ">=", integer(0)), Comparison(position, "<", work.extent)))
    body = (edge, If(is_inside, tuple(map(as_copy, scope.nodes))))
    return For(Loop(number, integer(0), integer(work.width), rolled=True), body)


def as_copy(node: Node) -> Node:
    """A store of a loaded element of the same type, as a copy without conversion."""
    match node:
        case Store(access=target, value=Element(access=source)) if source.array.dtype == target.array.dtype:
            return Copy(target, source)
    return node


def with_copies(nodes: Sequence[Node]) -> list[Node]:
    """The nodes with a copy in place of an element that is loaded, stored next and not used again."""
    changed: list[Node] = []
    for number, node in enumerate(nodes):
        match node, changed[-1:]:
            case Store(access=target, value=Local(name=value)), [
                Load(local=Local(name=loaded), access=source, guard=None)
            ] if (
                value == loaded
                and source.array.dtype == target.array.dtype
                and source.array.space in ADDRESSED
                and source.width == target.width == 1
                and not mentions(nodes[number + 1 :], loaded)
            ):
                changed[-1] = Copy(target, source)
            case _:
                changed.append(node)
    return changed


def load_inside(read: Read, vector: Vector, access: Access, lowering: Lowering, scope: Scope) -> None:
    """A vector load guarded by the array's bounds; zeros outside."""
    subscripts, guard, _ = within(lowering, read, access.subscripts, access.array, scope)
    access = replace(access, subscripts=subscripts)
    if guard is None:
        scope.nodes.append(Load(vector, access))
        return
    loaded = Assign(vector, Element(access.array.symbol, access.array.dtype.compute, access))
    scope.nodes += [Let(vector, Const(0, vector.dtype), mutable=True), If(guard, (loaded,))]


def gather_stores(
    nodes: Iterable[Node],
    request: Request,
    lane: Index,
    lowering: Lowering,
    fits: Callable[[Statement, Array], bool] = lambda *_: True,
) -> tuple[list[Node], GatheredStores]:
    """The nodes of element `lane` with assignments to components of vectors in place of its stores, and the vectors; a
    store of a statement to an array that no vector `fits` is kept."""
    stored, width = tuple(request.stored_statements()), lane.range[1] + 1
    targets = tuple(Read(s.target, s.subscripts, s.value.dtype) for s in stored)
    fitting = [s for s in stored if fits(s, lowering.arrays[s.target])]
    arrays = []
    for numbered in numbered_elements(fitting, lambda s: s.target):
        array, constants = lowering.arrays[numbered.elements[0].target], numbered.other_constants
        arrays.append((numbered, vector_of(array, array.name, width, lowering, numbered.count, constants)))
    vectors = {s: vector.indexed(integer(n)) for of, vector in arrays for n, s in enumerate(of.elements)}
    statements = iter(zip(stored, targets, strict=True))
    gathered: list[Node] = []
    single: list[tuple[Statement, Vector]] = []
    for node in nodes:
        if isinstance(node, Store) and node.access.array.space != "register":
            statement, target = next(statements)
            if statement in fitting:
                vector = vectors.get(statement)
                if vector is None:
                    which = which_of(target, targets)
                    vector = vector_of(node.access.array, statement.target, width, lowering, which=which)
                    single.append((statement, vector))
                node = Assign(vector.component(lane.symbol), node.value)
        gathered.append(node)
    return gathered, GatheredStores(tuple(single), tuple(arrays))


def vector_of(
    array: Array, name_hint: str, width: int, lowering: Lowering, count: int = 1, which: tuple[str, ...] = ()
) -> Vector:
    """Declares `x4` for four elements of x, or an array of `count` such vectors; `x4_0_2` for those `which` have these
    subscripts."""
    name = name_hint.lower()
    separator = "_" if name[-1].isdigit() else ""
    name = lowering.names.allocate("_".join((f"{name}{separator}{width}", *which)))
    return Vector(name, array.dtype.compute, array.dtype, width, count if count > 1 else 0)


def load_vectors(
    vector: Vector, access: Callable[[Integer], Access], lowering: Lowering, scope: Scope
) -> Callable[[Integer], Expr]:
    """Loads a vector or an array of vectors; returns a function from an element's number to its component."""
    if not vector.count:
        scope.nodes.append(Load(vector, access(integer(0))))
        return vector.component
    index = shared_loop_variable("u", (0, vector.count - 1), lowering, "vectors")
    load = Load(vector.indexed(index.symbol), access(index.symbol))
    scope.nodes += [Let(vector, None, mutable=True), unrolled(index, (load,))]
    width = integer(vector.width)
    return lambda i: vector.indexed(FloorDiv(i, width)).component(Mod(i, width))


def mentions_of(part: Expr, expressions: Iterable[Expr]) -> int:
    """How often the code of expressions mentions a part of them; an operation that occurs again is named, and mentions
    its operands once."""
    mentions, named = 0, set()
    pending = list(expressions)
    while pending:
        expr = pending.pop()
        mentions += expr == part
        if expr != part and expr not in named:
            pending += children(expr)
            if isinstance(expr, Op):
                named.add(expr)
    return mentions


def remember_read(
    request: Request, read: Read, value: Expr, lowering: Lowering, scope: Scope, name_hint: str = ""
) -> None:
    """Records the value of a read, under a name if it is used more than once or as a subscript."""
    values = [statement.value for statement in request.group.statements]
    if mentions_of(read, values) > 1 or read in lowering.subscripts:
        reads = [node for value in values for node in walk(value) if isinstance(node, Read)]
        name = name_hint or "_".join((read.array.lower(), *which_of(read, reads)))
        is_taken = name == lowering.arrays[read.array].symbol
        local = Local(lowering.names.allocate(f"{name}_value" if is_taken else name), read.dtype)
        named = Load(local, value.access) if isinstance(value, Element) else Let(local, value)
        scope.nodes.append(named)
        value = local
    scope.remember(read, value)
