"""A thread's elements of a scan in registers: vectors of consecutive elements, and their loads and stores."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from cugen.families.scan.recognition import ScanProblem
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Array, Element, Vector
from cugen.plan.nodes import Assign, Comparison, Copy, Declare, For, Guard, If, Index, Let, Load, Loop, Node, Store
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer, integer
from cugen.spec.expressions import Const, Expr, Local, Read


class Registers:
    """`vectors` of `width` consecutive elements of each array in each thread. `end` is the extent, or None where every
    vector is whole."""

    def __init__(self, problem: ScanProblem, lowering: Lowering, width: int, vectors: int, end: Integer | None) -> None:
        self.problem, self.lowering, self.width, self.vectors, self.end = problem, lowering, width, vectors, end
        self.vector_counter = Index(lowering.names.allocate("u"), integer(0), (0, vectors - 1))
        self.element_counter = Index(lowering.names.allocate("v"), integer(0), (0, width - 1))
        self.first: Integer = integer(0)  # index of the current vector's first element
        lowering.ranges[self.vector_counter.symbol] = self.vector_counter.range
        self.storage: dict[Read, Vector | Array | Local] = {
            read: self._allocate(read.array) for read in problem.vector_reads
        }

    def prefetch_registers(self) -> Registers:
        """A second set of registers, for the loads of the next iteration."""
        prefetch = copy(self)
        prefetch.storage = {read: self._allocate(read.array, "next_") for read in self.problem.vector_reads}
        return prefetch

    def copy_from(self, prefetch: Registers) -> tuple[Node, ...]:
        """Copies the current vector of each read from the prefetch registers."""
        nodes: list[Node] = []
        for stored, source in zip(self.storage.values(), prefetch.storage.values(), strict=True):
            if isinstance(stored, Array) and isinstance(source, Array):
                nodes.append(
                    Copy(Access(stored, (self.vector_index,), "store"), Access(source, (self.vector_index,), "load"))
                )
            elif isinstance(stored, Vector) and isinstance(source, Vector):
                nodes.append(Assign(self._current(stored), self._current(source)))
        return tuple(nodes)

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
        return Guard(() if self.end is None else (Comparison(self.element_index, "<", self.end),))

    def _allocate(self, array: str, prefix: str = "") -> Vector | Array | Local:
        dtype, name = self.lowering.arrays[array].dtype, f"{prefix}{array.lower()}"
        if self.width > 1:
            separator = "_" if name[-1].isdigit() else ""
            symbol = self.lowering.names.allocate(f"{name}{separator}{self.width}")
            return Vector(symbol, dtype.compute, dtype, self.width, self.vectors if self.vectors > 1 else 0)
        if self.vectors == 1:
            return Local(self.lowering.names.allocate(f"{name}_value"), dtype.compute)
        shape = (integer(self.vectors),)
        symbol = self.lowering.names.allocate(f"{name}_values")
        return Array("", symbol, dtype, shape, (integer(1),), "register", flat=False)

    def declare(self, inside: Guard, *, zeroed: bool) -> tuple[Node, ...]:
        """Declares the registers that loads don't declare; `zeroed` where elements that aren't loaded are used."""
        if self._load_declares(inside):
            return ()
        return tuple(
            Declare(stored, zeroed=zeroed)
            if isinstance(stored, Array)
            else Let(stored, Const(0, stored.dtype) if zeroed else None, mutable=True)
            for stored in self.storage.values()
        )

    def _load_declares(self, inside: Guard) -> bool:
        """Whether the load declares its register: there is one, and it is unconditional."""
        return self.vectors == 1 and not inside.terms and self.end is None

    def each_element(self, nodes: Sequence[Node], *, backward: bool = False) -> tuple[Node, ...]:
        """The nodes for each element of a vector."""
        if self.width == 1 or not nodes:
            return tuple(nodes)
        loop = Loop(self.element_counter, integer(0), integer(self.width), unroll=True, downward=backward)
        return (For(loop, tuple(nodes)),)

    def value(self, stored: Vector | Array | Local) -> Expr:
        """The current element."""
        if isinstance(stored, Array):
            return Element.of(Access(stored, (self.vector_index,), "load"))
        return self._current(stored).component(self.element_counter.symbol) if isinstance(stored, Vector) else stored

    def load(self, inside: Guard) -> tuple[Node, ...]:
        """Loads the current vector of each read, where it is `inside`."""
        load_declares = self._load_declares(inside)
        vectors: list[Node] = []
        elements: list[Node] = []
        for read, stored in self.storage.items():
            access = self.access(read.array, read.subscripts, "load")
            if isinstance(stored, Array):
                vectors.append(Copy(Access(stored, (self.vector_index,), "store"), access))
            elif load_declares:
                vectors.append(Load(stored, access))
            elif not isinstance(stored, Vector) or not stored.count:
                vectors.append(Assign(stored, Element.of(access)))
            else:
                vectors.append(Load(self._current(stored), access))
            if isinstance(stored, Vector):
                element = Element.of(self.access(read.array, read.subscripts, "load", narrow=True))
                elements.append(Assign(self._current(stored).component(self.element_counter.symbol), element))
        return guarded(inside, self._vectors_or_elements(vectors, elements))

    def store(self, stores: Sequence[tuple[str, tuple[Expr, ...], Vector]]) -> tuple[Node, ...]:
        """Stores the vectors; `stores` are triples of array, subscripts and vector."""
        vectors = [Store(self.access(array, subs, "store"), vector) for array, subs, vector in stores]
        if self.end is None:
            return tuple(vectors)
        elements = [
            Store(self.access(array, subs, "store", narrow=True), vector.component(self.element_counter.symbol))
            for array, subs, vector in stores
        ]
        return self._vectors_or_elements(vectors, elements)

    def _vectors_or_elements(self, vectors: Sequence[Node], elements: Sequence[Node]) -> tuple[Node, ...]:
        """Vector accesses, or guarded accesses to single elements for a partial vector."""
        if self.end is None:
            return tuple(vectors)
        fits = Guard((Comparison(self.first + (self.width - 1), "<", self.end),))
        return (If(fits, tuple(vectors), self.each_element(guarded(self.in_bounds, elements))),)

    def _current(self, stored: Vector) -> Vector:
        """The current vector."""
        return stored.indexed(self.vector_index) if stored.count else stored

    def access(self, array: str, subscripts: tuple[Expr, ...], kind: str, *, narrow: bool = False) -> Access:
        """The access to the current vector in memory, or to its current element if `narrow`."""
        symbols = {**self.lowering.symbols, self.problem.fastest.name: self.element_index if narrow else self.first}
        subscripts = tuple(to_integer(sub, symbols) for sub in subscripts)
        return Access(self.lowering.arrays[array], subscripts, kind, 1 if narrow else self.width)


def guarded(inside: Guard, nodes: Sequence[Node]) -> tuple[Node, ...]:
    return (If(inside, tuple(nodes)),) if inside.terms else tuple(nodes)
