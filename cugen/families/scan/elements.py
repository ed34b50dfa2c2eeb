"""A thread's own elements of a scan, walked first for what they combine to, then with running values that statements
see."""

from __future__ import annotations

from collections.abc import Sequence

from cugen.families.scan.recognition import Work
from cugen.families.scan.registers import Registers, guarded
from cugen.pieces.block_scan import Names, joined
from cugen.pieces.blocks import define, limit
from cugen.pieces.statements import lower_statements
from cugen.plan.intervals import fits, interval
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reductions import lower_condition
from cugen.plan.memory import Array, Vector
from cugen.plan.nodes import Assign, Define, For, Guard, If, Let, Loop, Node, Store
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import integer, symbol
from cugen.plan.usage import integers
from cugen.plan.walking import values_of, walk_nodes
from cugen.spec.expressions import Expr, Local, Read, walk


class Elements:
    """The elements in a thread's registers, walked backward where the scans run in reverse along them.

    `most` is how many elements, real or not, a running value takes in at most.
    """

    def __init__(self, work: Work, lowering: Lowering, registers: Registers, most: int) -> None:
        self.work, self.lowering, self.registers, self.most = work, lowering, registers, most
        self.names = tuple(Names.of(scan, lowering) for scan in work.scans)
        self.is_backward = work.walk.reverse and work.is_row
        self.all_count = False  # whether what a team combines is asked for though it holds less than it could
        self.own: Define | None = None  # where an element stands
        self.named: list[Let] = []  # the reads of an element that have a name
        self.known: Scope | None = None  # what the first walk left in sight of the second one

    def each_vector(self, first: Define | None, nodes: Sequence[Node]) -> tuple[Node, ...]:
        """The nodes once for each vector of the thread; where it begins is known before, where there is only one."""
        registers = self.registers
        if registers.vectors == 1:
            return tuple(nodes)
        if first is not None and mentions(nodes, first.index.name):
            nodes = (first, *nodes)
        return (For(Loop(registers.slot, integer(0), integer(registers.vectors), unroll=True), tuple(nodes)),)

    def combine(self, outer: Scope, running: Sequence[Local], inside: Guard) -> tuple[Node, ...]:
        """Takes the elements of a vector into one running value for each scan; those that aren't `inside` too, where it
        does no harm."""
        inner = self._element(outer)
        for names, local in zip(self.names, running, strict=True):
            inner.nodes += self._take(names, local, inner)
        nodes = self._each_element(inner, ())
        if inside.terms and not self.work.is_row:
            return nodes
        if (self.work.reads_elsewhere or self.all_count) and inside.terms:
            return guarded(inside, nodes)
        if self.registers.width == 1 and self.registers.vectors == 1:
            self.known = inner
        return nodes

    def store_results(self, outer: Scope, running: Sequence[Local], inside: Guard) -> tuple[Node, ...]:
        """The statements for each element of a vector, with the running values as they are there."""
        inner = self._element(self.known or outer)
        after: list[Node] = []
        for names, local in zip(self.names, running, strict=True):
            update = self._take(names, local, inner)
            (after if names.scan.exclusive else inner.nodes).extend(update)
            inner.remember(names.scan, local)
        lower_statements(self.work.request, self.lowering, inner)
        if self.registers.width == 1:
            return guarded(inside, self._each_element(inner, after))
        declared: list[Node] = []
        body: list[Node] = []
        stores = []
        written = iter([s for s in self.work.request.group.statements if self.work.is_stored(s)])
        for node in inner.nodes:
            if not isinstance(node, Store):
                body.append(node)
                continue
            statement, width = next(written), self.registers.width
            dtype = self.lowering.arrays[statement.target].dtype
            name = self.lowering.names.allocate(f"{statement.target.lower()}{width}")
            vector = Vector(name, dtype.compute, dtype, width)
            declared.append(Let(vector, None, mutable=True))
            body.append(Assign(vector.component(self.registers.number.symbol), node.value))
            stores.append((statement.target, statement.subscripts, vector))
        inner.nodes = body
        return guarded(inside, (*declared, *self._each_element(inner, after), *self.registers.store(stores)))

    def _element(self, outer: Scope) -> Scope:
        """The scope of one element, in which its reads are known."""
        self.named = []
        lowering, fast = self.lowering, self.work.fast
        inner = Scope(outer, frozenset((fast.name,)))
        if self.registers.width > 1:
            self.own = self.own or define(fast.name, self.registers.element, lowering)
            limit(self.own.index, to_integer(fast.extent, lowering.symbols), lowering)
            lowering.symbols[fast.name] = self.own.index.symbol
        for read, held in self.registers.held.items():
            value = self.registers.value(held)
            if isinstance(held, Array) or (isinstance(held, Vector) and self._uses(read) != 1):
                wish = lowering.read_names.get(read, read.array.lower())
                local = Local(lowering.name_for(read, wish, inner), read.dtype)
                self.named.append(Let(local, value))
                value = local
            inner.remember(read, value)
        return inner

    def _uses(self, read: Read) -> int:
        values = [statement.value for statement in self.work.request.group.statements]
        return sum(1 for value in values for node in walk(value) if node == read)

    def _each_element(self, inner: Scope, after: Sequence[Node]) -> tuple[Node, ...]:
        nodes = (*inner.nodes, *after)
        nodes = (*(let for let in self.named if mentions(nodes, let.local.name)), *nodes)
        self.lowering.symbols[self.work.fast.name] = self.registers.first
        if self.own is not None and mentions(nodes, self.own.index.name):
            nodes = (self.own, *nodes)
        return self.registers.each_element(nodes, backward=self.is_backward)

    def _take(self, names: Names, local: Local, scope: Scope) -> tuple[Node, ...]:
        """Takes the element into a running value, where the scan's condition holds."""
        lowering, scan = self.lowering, names.scan
        condition = None if scan.where is None else lower_condition(lowering, scan.where, scope)
        inner = scope if condition is None else Scope(scope, certain=False)
        value = lowering.lower(scan.body, inner)
        self._bound(names, value)
        step = Assign(local, joined(names, local, value))
        taken: tuple[Node, ...] = (step,) if condition is None else (If(condition, (*inner.nodes, step)),)
        # Forward what isn't there comes last, and nobody asks for what comes after it.
        return guarded(self.registers.is_there, taken) if self.is_backward else taken

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


def mentions(nodes: Sequence[Node], name: str) -> bool:
    """Whether the nodes use an index or a local."""
    if any(symbol(name) in expr.free_symbols for expr in integers(tuple(nodes))):
        return True
    values = [value for node in walk_nodes(tuple(nodes)) for value in values_of(node)]
    return any(isinstance(leaf, Local) and leaf.name == name for value in values for leaf in walk(value))
