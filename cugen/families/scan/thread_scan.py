"""The thread-level part of a scan: a reduction of the thread's elements, then their scan with the statements."""

from __future__ import annotations

from collections.abc import Sequence

from cugen.families.scan.recognition import ScanProblem
from cugen.families.scan.registers import Registers, guarded
from cugen.pieces.block_scan import ScanLocals, combine_pair
from cugen.pieces.blocks import define, limit
from cugen.pieces.statements import lower_statements
from cugen.plan.intervals import fits, interval
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reductions import lower_condition
from cugen.plan.memory import Array, Vector
from cugen.plan.nodes import Assign, Define, For, Guard, If, Let, Loop, Node, Section, Store
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import integer, symbol
from cugen.plan.traversal.sections import dissolved
from cugen.plan.traversal.usage import integers
from cugen.plan.traversal.walking import values_of, walk_nodes
from cugen.spec.expressions import Expr, Local, Read, walk


class ThreadScan:
    """Thread-level reduction and scan of the elements in registers, backward for reverse scans along a row.

    `max_elements` bounds the number of elements in one accumulator, padding included.
    """

    def __init__(self, problem: ScanProblem, lowering: Lowering, registers: Registers, max_elements: int) -> None:
        self.problem, self.lowering, self.registers, self.max_elements = problem, lowering, registers, max_elements
        self.names = tuple(ScanLocals.of(scan, lowering) for scan in problem.scans)
        self.is_backward = problem.pattern.reverse and problem.is_row
        self.needs_exact_totals = False  # whether the total of a partly filled thread group is used
        self.element: Define | None = None  # the index of an element
        self.read_locals: list[Let] = []  # of the reads of an element
        self.reduced: Scope | None = None  # the scope of `reduce`, where `scan_and_store` may reuse its values

    def each_vector(self, first: Define | None, nodes: Sequence[Node]) -> tuple[Node, ...]:
        """The nodes for each vector of the thread. A single vector has no loop, and `first` is defined before."""
        registers = self.registers
        if registers.vectors == 1:
            return tuple(nodes)
        if first is not None and mentions(nodes, first.index.name):
            nodes = (Section("position", (first,)), *nodes)
        return (For(Loop(registers.vector_counter, integer(0), integer(registers.vectors), unroll=True), tuple(nodes)),)

    def reduce(self, outer: Scope, accumulators: Sequence[Local], inside: Guard) -> tuple[Node, ...]:
        """Accumulates the elements of a vector, one accumulator per scan. Without a guard where elements that aren't
        `inside` do no harm."""
        inner = self._element(outer)
        for names, local in zip(self.names, accumulators, strict=True):
            inner.nodes += self._accumulate(names, local, inner)
        nodes = self._each_element(inner, ())
        if inside.terms and not self.problem.is_row:
            return nodes
        if (self.problem.has_indexed_reads or self.needs_exact_totals) and inside.terms:
            return guarded(inside, nodes)
        if self.registers.width == 1 and self.registers.vectors == 1:
            self.reduced = inner
        return nodes

    def scan_and_store(self, outer: Scope, accumulators: Sequence[Local], inside: Guard) -> tuple[Node, ...]:
        """Scans the elements of a vector and computes the statements for each of them."""
        inner = self._element(self.reduced or outer)
        updates: list[Node] = []  # of exclusive scans, after the statements
        for names, local in zip(self.names, accumulators, strict=True):
            update = self._accumulate(names, local, inner)
            (updates if names.scan.exclusive else inner.nodes).extend(update)
            inner.remember(names.scan, local)
        lower_statements(self.problem.request, self.lowering, inner)
        if self.registers.width == 1:
            return guarded(inside, self._each_element(inner, updates))
        declared: list[Node] = []
        body: list[Node] = []
        stores = []
        statements = iter([s for s in self.problem.request.group.statements if self.problem.is_stored(s)])
        for node in inner.nodes:
            if not isinstance(node, Store):
                body.append(node)
                continue
            statement, width = next(statements), self.registers.width
            dtype = self.lowering.arrays[statement.target].dtype
            name = self.lowering.names.allocate(f"{statement.target.lower()}{width}")
            vector = Vector(name, dtype.compute, dtype, width)
            declared.append(Let(vector, None, mutable=True))
            body.append(Assign(vector.component(self.registers.element_counter.symbol), node.value))
            stores.append((statement.target, statement.subscripts, vector))
        inner.nodes = body
        return guarded(inside, (*declared, *self._each_element(inner, updates), *self.registers.store(stores)))

    def _element(self, outer: Scope) -> Scope:
        """The scope of one element, with the values of its reads."""
        self.read_locals = []
        lowering, fastest = self.lowering, self.problem.fastest
        inner = Scope(outer, frozenset((fastest.name,)))
        if self.registers.width > 1:
            self.element = self.element or define(fastest.name, self.registers.element_index, lowering)
            limit(self.element.index, to_integer(fastest.extent, lowering.symbols), lowering)
            lowering.symbols[fastest.name] = self.element.index.symbol
        for read, stored in self.registers.storage.items():
            value = self.registers.value(stored)
            if isinstance(stored, Array) or (isinstance(stored, Vector) and self._use_count(read) != 1):
                hint = lowering.read_names.get(read, read.array.lower())
                local = Local(lowering.name_for(read, hint, inner), read.dtype)
                self.read_locals.append(Let(local, value))
                value = local
            inner.remember(read, value)
        return inner

    def _use_count(self, read: Read) -> int:
        values = [statement.value for statement in self.problem.request.group.statements]
        return sum(1 for value in values for node in walk(value) if node == read)

    def _each_element(self, inner: Scope, updates: Sequence[Node]) -> tuple[Node, ...]:
        nodes = (*inner.nodes, *updates)
        nodes = (*(let for let in self.read_locals if mentions(nodes, let.local.name)), *nodes)
        self.lowering.symbols[self.problem.fastest.name] = self.registers.first
        if self.element is not None and mentions(nodes, self.element.index.name):
            nodes = (self.element, *nodes)
        return self.registers.each_element(nodes, backward=self.is_backward)

    def _accumulate(self, names: ScanLocals, local: Local, scope: Scope) -> tuple[Node, ...]:
        """Accumulates the element, where the scan's condition holds."""
        lowering, scan = self.lowering, names.scan
        condition = None if scan.where is None else lower_condition(lowering, scan.where, scope)
        inner = scope if condition is None else Scope(scope, certain=False)
        value = lowering.lower(scan.body, inner)
        self._bound(names, value)
        update = Assign(local, combine_pair(names, local, value))
        nodes: tuple[Node, ...] = (update,) if condition is None else (If(condition, (*inner.nodes, update)),)
        # Forward, the padding comes last and no result depends on it.
        return guarded(self.registers.in_bounds, nodes) if self.is_backward else nodes

    def _bound(self, names: ScanLocals, term: Expr) -> None:
        """Records the range of an integer sum that cannot overflow its type, so that it is printed as plain `+`."""
        dtype = names.scan.dtype
        if names.scan.kind != "sum" or not dtype.is_integer:
            return
        low, high = interval(term, {name.name: values for name, values in self.lowering.ranges.items()})
        total = (min(low, 0) * self.max_elements, max(high, 0) * self.max_elements)
        if fits(total, dtype):
            for name in names.locals:
                self.lowering.ranges[symbol(name)] = total


def mentions(nodes: Sequence[Node], name: str) -> bool:
    """Whether the nodes use an index or a local."""
    body = dissolved(tuple(nodes))
    if any(symbol(name) in expr.free_symbols for expr in integers(body)):
        return True
    values = [value for node in walk_nodes(body) for value in values_of(node)]
    return any(isinstance(leaf, Local) and leaf.name == name for value in values for leaf in walk(value))
