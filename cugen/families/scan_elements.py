"""A thread's own elements of a scan: vectors in registers, walked first for what they combine to, then with running
values that the statements see."""

from __future__ import annotations

from collections.abc import Sequence

from cugen.families.blocks import define, limit
from cugen.families.prefix import Names, joined
from cugen.families.scan_form import Work
from cugen.families.statements import lower_statements
from cugen.plan.intervals import fits, interval
from cugen.plan.ir import (
    Access,
    Array,
    Assign,
    Copy,
    Declare,
    Define,
    Element,
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
    values_of,
    walk_nodes,
)
from cugen.plan.lowering import Lowering
from cugen.plan.reductions import lower_condition
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer, integer, symbol
from cugen.plan.usage import integers
from cugen.spec.expressions import Const, Expr, Local, Read, walk


class Elements:
    """`vectors` of `width` neighbours in each thread, walked backward where the scans run in reverse along them.

    `most` is how many elements, real or not, a running value takes in at most.
    """

    def __init__(self, work: Work, lowering: Lowering, width: int, vectors: int, most: int) -> None:
        self.work, self.lowering, self.width, self.vectors, self.most = work, lowering, width, vectors, most
        self.names = tuple(Names.of(scan, lowering) for scan in work.scans)
        self.slot = Index(lowering.names.allocate("u"), integer(0), (0, vectors - 1))
        self.number = Index(lowering.names.allocate("v"), integer(0), (0, width - 1))
        self.first: Integer = integer(0)  # where the present vector begins
        self.own: Define | None = None  # where an element of it stands
        self.named: list[Let] = []  # its reads that have a name
        lowering.ranges[self.slot.symbol] = self.slot.range
        lowering.ranges[self.number.symbol] = self.number.range
        self.held: dict[Read, Vector | Array | Local] = {read: self._registers(read.array) for read in work.wide_reads}

    # Registers

    def _registers(self, array: str) -> Vector | Array | Local:
        dtype, name = self.lowering.arrays[array].dtype, array.lower()
        if self.width > 1:
            separator = "_" if name[-1].isdigit() else ""
            wish = f"{name}{separator}{self.width}"
            count = self.vectors if self.vectors > 1 else 0
            return Vector(self.lowering.names.allocate(wish), dtype.compute, dtype, self.width, count)
        wish = f"{name}_value" if self.vectors == 1 else f"{name}_values"
        if self.vectors == 1:
            return Local(self.lowering.names.allocate(wish), dtype.compute)
        shape = (integer(self.vectors),)
        return Array("", self.lowering.names.allocate(wish), dtype, shape, (integer(1),), "register", flat=False)

    def declare(self, *, zeroed: bool) -> tuple[Node, ...]:
        """The registers; `zeroed` where not all of them are loaded."""
        if self.vectors == 1:
            return ()
        return tuple(
            Declare(held, zeroed=zeroed)
            if isinstance(held, Array)
            else Let(held, Const(0, held.dtype) if zeroed else None, mutable=True)
            for held in self.held.values()
        )

    @property
    def place(self) -> Integer:
        return self.slot.symbol if self.vectors > 1 else integer(0)

    def each_vector(self, first: Define, nodes: Sequence[Node]) -> tuple[Node, ...]:
        """The nodes once for each vector of the thread; where it begins is known before, where there is only one."""
        if self.vectors == 1:
            return tuple(nodes)
        if mentions(nodes, first.index):
            nodes = (first, *nodes)
        return (For(Loop(self.slot, integer(0), integer(self.vectors), unroll=True), tuple(nodes)),)

    def load(self, inside: Guard) -> tuple[Node, ...]:
        """Loads one vector of each read, where it is `inside`."""
        nodes: list[Node] = []
        for read, held in self.held.items():
            access = self._access(read.array, read.subscripts, "load")
            if isinstance(held, Array):
                nodes.append(Copy(Access(held, (self.place,), "store"), access))
            elif self.vectors == 1:
                nodes.append(Load(held, access, inside, Const(0, held.dtype)) if inside.terms else Load(held, access))
            elif isinstance(held, Vector):
                nodes.append(Load(self._present(held), access))
        return tuple(nodes) if self.vectors == 1 else guarded(inside, nodes)

    def _present(self, held: Vector) -> Vector:
        """The vector of the present round."""
        return held.one(self.place) if held.count else held

    def _access(self, array: str, subscripts: tuple[Expr, ...], kind: str) -> Access:
        symbols = {**self.lowering.symbols, self.work.fast.name: self.first}
        places = tuple(to_integer(sub, symbols) for sub in subscripts)
        return Access(self.lowering.arrays[array], places, kind, self.width)

    # The two passes

    def combine(self, outer: Scope, running: Sequence[Local]) -> tuple[Node, ...]:
        """Takes the elements of a vector into one running value for each scan."""
        inner = self._element(outer)
        for names, local in zip(self.names, running, strict=True):
            inner.nodes += self._take(names, local, inner)
        return self._each_element(inner, ())

    def store_results(self, outer: Scope, running: Sequence[Local], inside: Guard) -> tuple[Node, ...]:
        """The statements for each element of a vector, with the running values as they are there."""
        inner = self._element(outer)
        after: list[Node] = []
        for names, local in zip(self.names, running, strict=True):
            update = self._take(names, local, inner)
            (after if names.scan.exclusive else inner.nodes).extend(update)
            inner.remember(names.scan, local)
        lower_statements(self.work.request, self.lowering, inner)
        if self.width == 1:
            return guarded(inside, self._each_element(inner, after))
        declared: list[Node] = []
        body: list[Node] = []
        stores: list[Node] = []
        written = iter([s for s in self.work.request.group.statements if self.work.is_stored(s)])
        for node in inner.nodes:
            if not isinstance(node, Store):
                body.append(node)
                continue
            statement = next(written)
            dtype = self.lowering.arrays[statement.target].dtype
            wish = f"{statement.target.lower()}{self.width}"
            vector = Vector(self.lowering.names.allocate(wish), dtype.compute, dtype, self.width)
            declared.append(Let(vector, None, mutable=True))
            body.append(Assign(vector.component(self.number.symbol), node.value))
            stores.append(Store(self._access(statement.target, statement.subscripts, "store"), vector))
        inner.nodes = body
        return guarded(inside, (*declared, *self._each_element(inner, after), *stores))

    def _element(self, outer: Scope) -> Scope:
        """The scope of one element, in which its reads are known."""
        self.named = []
        inner = Scope(outer, frozenset((self.work.fast.name,)))
        if self.width > 1:
            self.own = self.own or define(self.work.fast.name, self.first + self.number.symbol, self.lowering)
            limit(self.own.index, to_integer(self.work.fast.extent, self.lowering.symbols), self.lowering)
            self.lowering.symbols[self.work.fast.name] = self.own.index.symbol
        for read, held in self.held.items():
            value: Expr
            if isinstance(held, Array):
                value = Element.of(Access(held, (self.place,), "load"))
            elif not isinstance(held, Vector):
                inner.remember(read, held)
                continue
            else:
                value = self._present(held).component(self.number.symbol)
                if self._uses(read) == 1:
                    inner.remember(read, value)
                    continue
            wish = self.lowering.read_names.get(read, read.array.lower())
            local = Local(self.lowering.name_for(read, wish, inner), read.dtype)
            self.named.append(Let(local, value))
            inner.remember(read, local)
        return inner

    def _uses(self, read: Read) -> int:
        values = [statement.value for statement in self.work.request.group.statements]
        return sum(1 for value in values for node in walk(value) if node == read)

    def _each_element(self, inner: Scope, after: Sequence[Node]) -> tuple[Node, ...]:
        nodes = (*inner.nodes, *after)
        nodes = (*(let for let in self.named if uses(nodes, let.local.name)), *nodes)
        self.lowering.symbols[self.work.fast.name] = self.first
        if self.own is None:
            return nodes
        if mentions(nodes, self.own.index):
            nodes = (self.own, *nodes)
        backward = self.work.walk.reverse and self.work.is_row
        return (For(Loop(self.number, integer(0), integer(self.width), unroll=True, downward=backward), nodes),)

    def _take(self, names: Names, local: Local, scope: Scope) -> tuple[Node, ...]:
        """Takes the element into a running value, where the scan's condition holds."""
        lowering, scan = self.lowering, names.scan
        condition = None if scan.where is None else lower_condition(lowering, scan.where, scope)
        inner = scope if condition is None else Scope(scope, certain=False)
        value = lowering.lower(scan.body, inner)
        self._bound(names, value)
        step = Assign(local, joined(names, local, value))
        return (step,) if condition is None else (If(condition, (*inner.nodes, step)),)

    def _bound(self, names: Names, term: Expr) -> None:
        """Records what sums of integers can reach, where that is inside their type: plain `+` is then right."""
        dtype = names.scan.dtype
        if names.scan.kind != "sum" or not dtype.is_integer:
            return
        low, high = interval(term, {name.name: values for name, values in self.lowering.ranges.items()})
        total = (min(low, 0) * self.most, max(high, 0) * self.most)
        if fits(total, dtype):
            for name in names.locals:
                self.lowering.ranges[symbol(name)] = total


def mentions(nodes: Sequence[Node], index: Index) -> bool:
    """Whether the nodes use the index."""
    return uses(nodes, index.name) or any(index.symbol in expr.free_symbols for expr in integers(tuple(nodes)))


def uses(nodes: Sequence[Node], name: str) -> bool:
    """Whether a value of the nodes mentions the local."""
    values = [value for node in walk_nodes(tuple(nodes)) for value in values_of(node)]
    return any(isinstance(leaf, Local) and leaf.name == name for value in values for leaf in walk(value))


def guarded(inside: Guard, nodes: Sequence[Node]) -> tuple[Node, ...]:
    return (If(inside, tuple(nodes)),) if inside.terms else tuple(nodes)
