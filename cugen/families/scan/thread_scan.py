"""The thread-level part of a scan: a reduction of the thread's elements, then their scan with the statements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cugen.families.scan.recognition import ScanProblem
from cugen.families.scan.registers import Registers
from cugen.pieces.block_scan import ScanLocals
from cugen.pieces.blocks import define, limit
from cugen.pieces.sections import guarded_nodes
from cugen.pieces.serial_scan import accumulate_scan
from cugen.pieces.statements import lower_statements
from cugen.pieces.vector_body import gather_stores
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reductions import identity
from cugen.plan.memory import Array, Vector
from cugen.plan.nodes import Assign, Define, Guard, Let, Node
from cugen.plan.scopes import Scope
from cugen.plan.traversal.usage import mentions
from cugen.spec.expressions import Local, walk


class ThreadScan:
    """Thread-level reduction and scan of the elements in registers, backward for reverse scans along a row.

    A row is padded to a multiple of `step` elements."""

    def __init__(self, problem: ScanProblem, lowering: Lowering, registers: Registers, step: int) -> None:
        self.problem, self.lowering, self.registers = problem, lowering, registers
        columns = 0 if problem.is_row else registers.width
        self.names = tuple(ScanLocals(scan, lowering, columns) for scan in problem.pattern.scans)
        self.max_elements = max(-(-problem.max_length // step) * step, 1)  # in one accumulator
        self.is_backward = problem.pattern.reverse and problem.is_row
        self.element: Define | None = None  # the index of an element
        self.read_locals: list[Let] = []  # of the reads of an element
        self.vector_scope: Scope | None = None
        self.reduced: Scope | None = None  # the scope of `reduce`, where `scan_and_store` may reuse its values

    def initialise(self, values: Iterable[Local]) -> tuple[Node, ...]:
        """Declares an aggregate of no elements for each scan."""
        nodes: list[Node] = []
        inner: list[Node] = []
        for names, value in zip(self.names, values, strict=True):
            start = identity(names.scan.kind, names.scan.dtype)
            by_element = isinstance(value, Vector) and names.scan.kind != "sum"
            nodes.append(Let(value, None if by_element else start, mutable=True))
            if by_element:
                inner.append(Assign(self.registers.value(value), start))
        return (*nodes, *self.registers.each_element(inner))

    def reduce(self, body: Scope, inside: Guard) -> tuple[Node, ...]:
        """Adds the elements of a vector to `partial`; without a guard where those not `inside` do no harm."""
        outer = self._vector_scope(body, inside)
        inner = self._element(outer)
        for names in self.names:
            inner.nodes += self._accumulate(names, names.partial, inner)
        nodes = (*outer.nodes, *self._each_element(inner, ()))
        # Forward, only the last tile of a row may be partial, and no tile uses its aggregate.
        uses_partial_tile = self.problem.pattern.reverse and self.problem.tiles_carry_over
        if inside.terms and (uses_partial_tile or self.problem.has_indexed_reads or not self.problem.is_row):
            return guarded_nodes(inside, nodes)
        if self.registers.width == 1 and self.registers.vectors == 1:
            self.reduced = inner
        return nodes

    def scan_and_store(self, body: Scope, inside: Guard) -> tuple[Node, ...]:
        """Scans the elements of a vector with `accumulator` and computes the statements for each of them."""
        outer = self._vector_scope(body, inside)
        inner = self._element(self.reduced or outer)
        updates: list[Node] = []  # of exclusive scans, after the statements
        for names in self.names:
            update = self._accumulate(names, names.accumulator, inner)
            (updates if names.scan.exclusive else inner.nodes).extend(update)
            inner.remember(names.scan, self.registers.value(names.accumulator))
        lower_statements(self.problem.request, self.lowering, inner)
        if self.registers.width == 1:
            return guarded_nodes(inside, (*outer.nodes, *self._each_element(inner, updates)))
        counter = self.registers.element_counter
        inner.nodes, vectors = gather_stores(inner.nodes, self.problem.request, counter, self.lowering)
        declared = (Let(vector, None, mutable=True) for vector in vectors.vectors)
        elements = self._each_element(inner, updates)
        return guarded_nodes(inside, (*outer.nodes, *declared, *elements, *self.registers.store(vectors)))

    def _vector_scope(self, body: Scope, inside: Guard) -> Scope:
        """The scope of a vector, for what its columns share; one for reduction and scan unless each has its own C++
        block. What a row's elements share is hoisted from it."""
        certain = self.problem.is_row or not inside.terms
        if self.vector_scope is None or self.registers.vectors > 1 or not certain:
            self.vector_scope = Scope(body, frozenset((self.problem.along.name,)), certain=certain)
        self.vector_scope.nodes = []
        return self.vector_scope

    def _element(self, outer: Scope) -> Scope:
        """The scope of one element, with the values of its reads."""
        self.read_locals = []
        lowering, fastest = self.lowering, self.problem.fastest
        inner = Scope(outer, frozenset((fastest.name,)))
        if self.registers.width > 1:
            self.element = self.element or define(fastest.name, self.registers.element_index, lowering)
            limit(self.element.index, self.problem.context.extent(fastest), lowering)
            lowering.symbols[fastest.name] = self.element.index.symbol
        nodes = [node for s in self.problem.request.group.statements for node in walk(s.value)]
        for read, stored in self.registers.storage.items():
            value = self.registers.value(stored)
            if isinstance(stored, Array) or (isinstance(stored, Vector) and nodes.count(read) != 1):
                hint = lowering.read_names.get(read, read.array.lower())
                local = Local(lowering.name_for(read, hint, inner), read.dtype)
                self.read_locals.append(Let(local, value))
                value = local
            inner.remember(read, value)
        return inner

    def _each_element(self, inner: Scope, updates: Sequence[Node]) -> tuple[Node, ...]:
        nodes = (*inner.nodes, *updates)
        nodes = (*(let for let in self.read_locals if mentions(nodes, let.local.name)), *nodes)
        self.lowering.symbols[self.problem.fastest.name] = self.registers.first
        if self.element is not None and mentions(nodes, self.element.index.name):
            nodes = (self.element, *nodes)
        return self.registers.each_element(nodes, backward=self.is_backward)

    def _accumulate(self, names: ScanLocals, aggregate: Local, scope: Scope) -> tuple[Node, ...]:
        """Adds the element to an aggregate, where the scan's condition holds."""
        local = self.registers.value(aggregate)
        nodes = accumulate_scan(names.scan, local, self.lowering, scope, names.locals, self.max_elements)
        # Forward, the padding after a row comes last and no result depends on it.
        return guarded_nodes(self.registers.in_bounds if self.is_backward else self.registers.after_start, nodes)
