"""A thread's elements of a scan in registers: vectors of consecutive elements, and their loads and stores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy

from cugen.families.scan.recognition import ScanProblem
from cugen.pieces.grid import divides
from cugen.pieces.kernels import dense_array
from cugen.pieces.loop_variables import loop_variable, unrolled
from cugen.pieces.sections import guarded_nodes
from cugen.pieces.structures.numbered_elements import GatheredStores
from cugen.pieces.vector_body import vector_of
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Array, Element, Vector
from cugen.plan.nodes import Assign, Comparison, Copy, Declare, Define, Guard, Index, Let, Load, Node, Section, Store
from cugen.plan.subscripts import access_of
from cugen.plan.symbols import Integer, integer
from cugen.plan.traversal.usage import mentions
from cugen.spec.expressions import Const, Expr, Local, Read
from cugen.spec.model import Statement

Storage = Array | Local  # one value or vector, or one per vector of the thread


class Registers:
    """A thread's `vectors` of `width` elements of each array. `end` is the extent, None where every vector is whole.
    With `shifted` vectors the first one of a row may start before it."""

    def __init__(
        self, problem: ScanProblem, lowering: Lowering, width: int, vectors: int, *, shifted: bool = False
    ) -> None:
        self.problem, self.lowering, self.width, self.vectors, self.shifted = problem, lowering, width, vectors, shifted
        extent = problem.context.extent(problem.fastest)
        self.end = None if divides(width, extent, problem.context) and not shifted else extent
        self.vector_counter = loop_variable("u", vectors, lowering)
        self.element_counter = Index(lowering.names.allocate("v"), integer(0), (0, width - 1))
        self.first: Integer = integer(0)  # index of the current vector's first element
        self.storage: dict[Read, Storage] = {read: self._allocate(read.array) for read in problem.vector_reads}

    def prefetch_registers(self) -> Registers:
        """A second set of registers, for the loads of the next iteration."""
        prefetch = copy(self)
        prefetch.storage = {read: self._allocate(read.array, "next_") for read in self.problem.vector_reads}
        return prefetch

    def set_first(self, first: Integer) -> None:
        """Sets the index of the current vector's first element, in the lowering's symbols too."""
        self.first = self.lowering.symbols[self.problem.fastest.name] = first
        self.lowering.ranges[self.element_counter.symbol] = self.element_counter.range

    @property
    def vector_index(self) -> Integer:
        """The number of the current vector in the thread."""
        return self.vector_counter.symbol if self.vectors > 1 else integer(0)

    @property
    def element_index(self) -> Integer:
        """The index of the current element."""
        return self.first + self.element_counter.symbol if self.width > 1 else self.first

    @property
    def in_bounds(self) -> Guard:
        """The bounds check of the current element."""
        return Guard((*self.after_start.terms, *self._before_end(self.element_index)))

    @property
    def after_start(self) -> Guard:
        """Whether the current element isn't before its row."""
        return Guard((Comparison(self.element_index, ">=", integer(0)),) if self.shifted else ())

    def _before_end(self, position: Integer) -> tuple[Comparison, ...]:
        return () if self.end is None else (Comparison(position, "<", self.end),)

    def _allocate(self, array: str, prefix: str = "") -> Storage:
        dtype, name = self.lowering.arrays[array].dtype, f"{prefix}{array.lower()}"
        if self.width > 1:
            return vector_of(self.lowering.arrays[array], name, self.width, self.lowering, self.vectors)
        if self.vectors == 1:
            return Local(self.lowering.names.allocate(f"{name}_value"), dtype.compute)
        return dense_array(self.lowering.names.allocate(f"{name}_values"), dtype, (self.vectors,), "register")

    def per_vector(self, value: Local) -> Storage:
        """Storage of a value per vector."""
        return value if self.vectors == 1 else dense_array(value.name, value.dtype, (self.vectors,), "register")

    def current(self, stored: Storage) -> Local:
        """What is stored of the current vector."""
        if isinstance(stored, Array):
            return Element.of(self._slot(stored, "load"))
        return stored.indexed(self.vector_index) if isinstance(stored, Vector) and stored.count else stored

    def value(self, stored: Storage) -> Local:
        """The current element."""
        current = self.current(stored)
        return current.component(self.element_counter.symbol) if isinstance(current, Vector) else current

    def assign(self, stored: Storage, value: Expr) -> Node:
        """Sets what is stored of the current vector."""
        return Store(self._slot(stored, "store"), value) if isinstance(stored, Array) else Assign(stored, value)

    def _slot(self, stored: Array, kind: str) -> Access:
        return Access(stored, (self.vector_index,), kind)

    def declare(self, inside: Guard, *, zeroed: bool) -> tuple[Node, ...]:
        """Declares the registers that loads don't declare; `zeroed` where elements that aren't loaded are used."""
        return () if self._load_declares(inside) else tuple(declaration(s, zeroed) for s in self.storage.values())

    def _load_declares(self, inside: Guard) -> bool:
        """Whether the load declares its register: there is one, and it is unconditional."""
        return self.vectors == 1 and not inside.terms and self.end is None

    def each_vector(self, first: Define | None, nodes: Sequence[Node]) -> tuple[Node, ...]:
        """The nodes for each vector of the thread. A single vector has no loop, and `first` is defined before."""
        if self.vectors == 1 or not nodes:
            return tuple(nodes)
        if first is not None and mentions(nodes, first.index.name):
            nodes = (Section("position", (first,)), *nodes)
        return (unrolled(self.vector_counter, nodes),)

    def each_element(self, nodes: Sequence[Node], *, backward: bool = False) -> tuple[Node, ...]:
        """The nodes for each element of a vector."""
        if self.width == 1 or not nodes:
            return tuple(nodes)
        return (unrolled(self.element_counter, nodes, downward=backward),)

    def each_column(self, nodes: Sequence[Node]) -> tuple[Node, ...]:
        """The nodes for each column of the thread, of which a row is one."""
        return tuple(nodes) if self.problem.is_row else self.each_element(nodes)

    def load(self, inside: Guard) -> tuple[Node, ...]:
        """Loads the current vector of each read, where it is `inside`."""
        if not self.storage:
            return ()
        load_declares = self._load_declares(inside)

        def loads(narrow: bool) -> Iterator[Node]:
            for read, stored in self.storage.items():
                access = self._access(read.array, read, "load", narrow)
                if isinstance(stored, Array):
                    yield Copy(self._slot(stored, "store"), access)
                elif load_declares:
                    yield Load(stored, access)
                else:
                    yield Assign(self.value(stored) if narrow else self.current(stored), Element.of(access))

        return guarded_nodes(inside, self._vectors_or_elements(loads))

    def copy_from(self, prefetch: Registers) -> tuple[Node, ...]:
        """Copies the current vector of each read from the prefetch registers."""
        return tuple(
            Copy(self._slot(stored, "store"), self._slot(source, "load"))
            if isinstance(stored, Array) and isinstance(source, Array)
            else Assign(self.current(stored), self.current(source))
            for stored, source in zip(self.storage.values(), prefetch.storage.values(), strict=True)
        )

    def store(self, gathered: GatheredStores) -> tuple[Node, ...]:
        """Stores the vector of each statement."""

        def stores(narrow: bool) -> Iterable[Node]:
            def store(statement: Statement, vector: Vector) -> Store:
                access = self._access(statement.target, statement, "store", narrow)
                return Store(access, self.value(vector) if narrow else vector)

            return gathered.stores(self.lowering, store)

        return self._vectors_or_elements(stores)

    def _vectors_or_elements(self, moves: Callable[[bool], Iterable[Node]]) -> tuple[Node, ...]:
        """Vector accesses, or guarded ones to the elements of a partial vector; `moves` gives wide or narrow ones."""
        vectors = tuple(moves(False))
        if self.end is None:
            return vectors
        starts_inside = (Comparison(self.first, ">=", integer(0)),) if self.shifted else ()
        fits = Guard((*starts_inside, *self._before_end(self.first + (self.width - 1))))
        return guarded_nodes(fits, vectors, self.each_element(guarded_nodes(self.in_bounds, tuple(moves(True)))))

    def _access(self, array: str, element: Read | Statement, kind: str, narrow: bool) -> Access:
        """The access to the current vector in memory, or to its current element if `narrow`."""
        symbols = {**self.lowering.symbols, self.problem.fastest.name: self.element_index if narrow else self.first}
        return access_of(self.lowering.arrays[array], element, symbols, kind, 1 if narrow else self.width)


def declaration(stored: Storage, zeroed: bool = False) -> Node:
    """Declares storage without a value, or with zeros."""
    if isinstance(stored, Array):
        return Declare(stored, zeroed=zeroed)
    return Let(stored, Const(0, stored.dtype) if zeroed else None, mutable=True)
