"""What a thread holds of a scan's arrays: a few vectors of neighbours, loaded and stored whole but for the last."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from cugen.families.scan.recognition import Work
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Array, Element, Vector
from cugen.plan.nodes import Assign, Comparison, Copy, Declare, For, Guard, If, Index, Let, Load, Loop, Node, Store
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer, integer
from cugen.spec.expressions import Const, Expr, Local, Read


class Registers:
    """`vectors` of `width` neighbours of each array in each thread. Elements from `end` on aren't there; it is None
    where no vector reaches beyond."""

    def __init__(self, work: Work, lowering: Lowering, width: int, vectors: int, end: Integer | None) -> None:
        self.work, self.lowering, self.width, self.vectors, self.end = work, lowering, width, vectors, end
        self.slot = Index(lowering.names.allocate("u"), integer(0), (0, vectors - 1))
        self.number = Index(lowering.names.allocate("v"), integer(0), (0, width - 1))
        self.first: Integer = integer(0)  # where the present vector begins
        lowering.ranges[self.slot.symbol] = self.slot.range
        self.held: dict[Read, Vector | Array | Local] = {read: self._hold(read.array) for read in work.wide_reads}

    def ahead(self) -> Registers:
        """As many registers for what comes next."""
        other = copy(self)
        other.held = {read: self._hold(read.array, "next_") for read in self.work.wide_reads}
        return other

    def take(self, other: Registers) -> tuple[Node, ...]:
        """Moves one vector of each read from other registers."""
        nodes: list[Node] = []
        for held, source in zip(self.held.values(), other.held.values(), strict=True):
            if isinstance(held, Array) and isinstance(source, Array):
                nodes.append(Copy(Access(held, (self.place,), "store"), Access(source, (self.place,), "load")))
            elif isinstance(held, Vector) and isinstance(source, Vector):
                nodes.append(Assign(self._present(held), self._present(source)))
        return tuple(nodes)

    def begin_at(self, first: Integer) -> None:
        """From now on vectors begin at `first`, in the symbols of the lowering too."""
        self.first = self.lowering.symbols[self.work.fast.name] = first
        self.lowering.ranges[self.number.symbol] = self.number.range

    @property
    def place(self) -> Integer:
        """Which vector of the thread is the present one."""
        return self.slot.symbol if self.vectors > 1 else integer(0)

    @property
    def element(self) -> Integer:
        """Where the present element of the present vector stands."""
        return self.first + self.number.symbol if self.width > 1 else self.first

    @property
    def is_there(self) -> Guard:
        """Whether the present element is."""
        return Guard(() if self.end is None else (Comparison(self.element, "<", self.end),))

    def _hold(self, array: str, prefix: str = "") -> Vector | Array | Local:
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
        """The registers that loads don't introduce; `zeroed` where values are taken that aren't loaded."""
        if self._introduces(inside):
            return ()
        return tuple(
            Declare(held, zeroed=zeroed)
            if isinstance(held, Array)
            else Let(held, Const(0, held.dtype) if zeroed else None, mutable=True)
            for held in self.held.values()
        )

    def _introduces(self, inside: Guard) -> bool:
        """Whether a load is where its vector begins to be: there is but one, and it is always made."""
        return self.vectors == 1 and not inside.terms and self.end is None

    def each_element(self, nodes: Sequence[Node], *, backward: bool = False) -> tuple[Node, ...]:
        """The nodes once for each element of a vector."""
        if self.width == 1 or not nodes:
            return tuple(nodes)
        loop = Loop(self.number, integer(0), integer(self.width), unroll=True, downward=backward)
        return (For(loop, tuple(nodes)),)

    def value(self, held: Vector | Array | Local) -> Expr:
        """The present element of what is held of an array."""
        if isinstance(held, Array):
            return Element.of(Access(held, (self.place,), "load"))
        return self._present(held).component(self.number.symbol) if isinstance(held, Vector) else held

    def load(self, inside: Guard) -> tuple[Node, ...]:
        """Loads one vector of each read, where it is `inside`."""
        introduces = self._introduces(inside)
        whole: list[Node] = []
        rest: list[Node] = []
        for read, held in self.held.items():
            access = self.access(read.array, read.subscripts, "load")
            if isinstance(held, Array):
                whole.append(Copy(Access(held, (self.place,), "store"), access))
            elif introduces:
                whole.append(Load(held, access))
            elif not isinstance(held, Vector) or not held.count:
                whole.append(Assign(held, Element.of(access)))
            else:
                whole.append(Load(self._present(held), access))
            if isinstance(held, Vector):
                element = Element.of(self.access(read.array, read.subscripts, "load", narrow=True))
                rest.append(Assign(self._present(held).component(self.number.symbol), element))
        return guarded(inside, self._whole_or_not(whole, rest))

    def store(self, stores: Sequence[tuple[str, tuple[Expr, ...], Vector]]) -> tuple[Node, ...]:
        """Stores vectors to arrays at subscripts."""
        whole = [Store(self.access(array, subs, "store"), vector) for array, subs, vector in stores]
        if self.end is None:
            return tuple(whole)
        rest = [
            Store(self.access(array, subs, "store", narrow=True), vector.component(self.number.symbol))
            for array, subs, vector in stores
        ]
        return self._whole_or_not(whole, rest)

    def _whole_or_not(self, whole: Sequence[Node], rest: Sequence[Node]) -> tuple[Node, ...]:
        """Whole vectors, or what there is of them, element by element."""
        if self.end is None:
            return tuple(whole)
        fits = Guard((Comparison(self.first + (self.width - 1), "<", self.end),))
        return (If(fits, tuple(whole), self.each_element(guarded(self.is_there, rest))),)

    def _present(self, held: Vector) -> Vector:
        """The vector of the present round."""
        return held.one(self.place) if held.count else held

    def access(self, array: str, subscripts: tuple[Expr, ...], kind: str, *, narrow: bool = False) -> Access:
        """The present vector in memory, or its present element."""
        symbols = {**self.lowering.symbols, self.work.fast.name: self.element if narrow else self.first}
        places = tuple(to_integer(sub, symbols) for sub in subscripts)
        return Access(self.lowering.arrays[array], places, kind, 1 if narrow else self.width)


def guarded(inside: Guard, nodes: Sequence[Node]) -> tuple[Node, ...]:
    return (If(inside, tuple(nodes)),) if inside.terms else tuple(nodes)
