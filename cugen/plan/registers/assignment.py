"""Locals and elements of register arrays that a kernel may read before it gives them a value.

A walk over all paths. What is assigned under conditions counts where the same conditions hold; loops of unknown length
may have no trip.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product

import sympy

from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access, Component, Element, Vector
from cugen.plan.nodes import (
    COMPARISONS,
    Accumulate,
    Assign,
    Comparison,
    ConvertFragment,
    Copy,
    Declare,
    Define,
    For,
    Guard,
    If,
    Let,
    Load,
    LoadMatrix,
    Mma,
    Node,
    ReturnUnless,
    Store,
)
from cugen.plan.pipeline_nodes import Wgmma
from cugen.plan.registers.known_values import Integers, evaluator, position_of
from cugen.plan.symbols import Integer, Range, bounds
from cugen.plan.traversal.walking import values_of
from cugen.spec.expressions import Local, walk

MAX_TRIPS = 8  # of a loop that isn't unrolled and is walked trip by trip

Conditions = frozenset[object]
Key = tuple[str, int, int]  # name in C, element, lane of a vector

_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


def unassigned_reads(kernel: Kernel) -> tuple[str, ...]:
    """What may be read without a value, as `acc[3]` by linear index."""
    ranges = dict(kernel.ranges)
    walked = _Walk(ranges, {symbol: low for symbol, (low, high) in ranges.items() if low == high})
    walked.run(kernel.body)
    return tuple(walked.unassigned)


@dataclass
class _Walk:
    ranges: dict[sympy.Symbol, Range]
    known: Integers
    declared: dict[str, tuple[int, int]] = field(default_factory=dict)  # without a value: elements, lanes
    assigned: dict[Key, set[Conditions]] = field(default_factory=dict)
    columns: dict[str, int] = field(default_factory=dict)  # of arrays of vectors with rows
    definitions: dict[sympy.Basic, Integer] = field(default_factory=dict)  # of indices without a known value
    conditions: Conditions = frozenset()
    unassigned: dict[str, None] = field(default_factory=dict)

    def run(self, nodes: Iterable[Node]) -> None:
        outer = self.conditions
        for node in nodes:
            self.node(node)
        self.conditions = outer

    def node(self, node: Node) -> None:
        for used in values_of(node):
            for leaf in walk(used):
                if isinstance(leaf, Local):
                    self.read(self.keys(leaf))
        match node:
            case For():
                self.loop(node)
            case If():
                self.branch(node)
            case ReturnUnless(guard=guard):
                self.conditions |= self.terms(guard)
            case Define(index=index, then=then):
                value = None if then is not None else self.value(index.definition)
                self.known.pop(index.symbol, None)
                self.definitions.pop(index.symbol, None)
                if value is not None:
                    self.known[index.symbol] = value
                elif then is None:
                    self.definitions[index.symbol] = self.expanded(index.definition)
            case Declare(array=array) if array.space == "register":
                elements = self.value(sympy.Mul(*array.padded_shape))
                self.declare(array.symbol, elements or 0, 1, has_value=node.zeroed)
            case Let(local=Vector() as vector, value=value):
                self.columns[vector.name] = vector.count
                self.declare(vector.name, _count(vector), vector.width, has_value=value is not None)
            case Let(local=local, value=value):
                self.declare(local.name, 1, 1, has_value=value is not None)
            case Load(local=local) | Assign(local=local):
                self.assign(self.keys(local), is_known=self.is_known(local))
            case Store(access=access):
                self.assign(self.elements(access), is_known=self.position(access) is not None)
            case Copy(target=target, source=source):
                self.read(self.elements(source))
                self.assign(self.elements(target), is_known=self.position(target) is not None)
            case Accumulate(access=access):
                self.read(self.elements(access))
            case LoadMatrix(target=target):
                self.assign(self.elements(target, target.width), is_known=self.position(target) is not None)
            case ConvertFragment(target=target, source=source):
                self.read(self.elements(source, source.width))
                self.assign(self.elements(target, target.width), is_known=self.position(target) is not None)
            case Mma():
                for access, count in (
                    (node.acc_upper, 2),
                    (node.acc_lower, 2),
                    (node.a, node.instruction.a_registers),
                    (node.b, node.instruction.b_registers),
                ):
                    self.read(self.elements(access, count))
            case Wgmma(acc_upper=upper, acc_lower=lower, k=k):
                accumulators = [*self.elements(upper, node.n // 4), *self.elements(lower, node.n // 4)]
                if bounds(self.expanded(k), self.ranges)[0] > 0:  # else the first trip of a loop overwrites them
                    self.read(accumulators)
                self.assign(accumulators, is_known=self.position(upper) is not None)

    # Loops and branches

    def loop(self, node: For) -> None:
        loop, symbol = node.loop, node.loop.index.symbol
        start, stop = self.value(loop.start), self.value(loop.stop)
        trips = None
        if start is not None and stop is not None and not (loop.halves or loop.doubles):
            trips = range(start, stop, loop.step)
        if trips is not None and (loop.unroll or len(trips) <= MAX_TRIPS):
            for trip in reversed(trips) if loop.downward else trips:
                self.known[symbol] = trip
                self.run(node.body)
            self.known.pop(symbol, None)
            return
        self.known.pop(symbol, None)
        self.definitions.pop(symbol, None)
        before = {key: set(facts) for key, facts in self.assigned.items()}
        self.run(node.body)
        if trips or (trips is None and bounds(loop.stop - loop.start, self.ranges)[0] > 0):
            for key, facts in self.assigned.items():
                before.setdefault(key, set()).update(fact for fact in facts if fact <= self.conditions)
        self.assigned = before

    def branch(self, node: If) -> None:
        if not isinstance(node.condition, Guard):
            then, otherwise = frozenset[object]((id(node),)), frozenset[object]((-id(node),))
        else:
            then, otherwise = self.terms(node.condition), self.negated(node.condition)
        outer = self.conditions
        if "never" not in then:
            self.conditions = outer | then
            self.run(node.then)
        if then:
            self.conditions = outer | otherwise
            self.run(node.orelse)
        self.conditions = outer
        for facts in self.assigned.values():
            if "never" in then and outer | otherwise in facts:
                facts.add(outer)
            if outer | then in facts and outer | otherwise in facts:
                facts.add(outer)

    def terms(self, guard: Guard) -> Conditions:
        """The comparisons that aren't known to hold; "never" is one that is known to fail."""
        terms = set[object]()
        for term in guard.terms:
            left, right = self.value(term.left), self.value(term.right)
            if left is None or right is None:
                terms.add(self.term(term, term.operator))
            elif not COMPARISONS[term.operator](left, right):
                return frozenset(("never",))
        return frozenset(terms)

    def negated(self, guard: Guard) -> Conditions:
        if len(guard.terms) == 1:
            return frozenset((self.term(guard.terms[0], _NEGATED[guard.terms[0].operator]),))
        return frozenset((("not", self.terms(guard)),))

    def term(self, term: Comparison, operator: str) -> object:
        return (operator, sympy.expand(self.expanded(term.left) - self.expanded(term.right)))

    # Names and values

    def declare(self, name: str, elements: int, lanes: int, *, has_value: bool) -> None:
        self.assigned = {key: facts for key, facts in self.assigned.items() if key[0] != name}
        self.declared.pop(name, None)
        if not has_value:
            self.declared[name] = (elements, lanes)

    def read(self, keys: Iterable[Key]) -> None:
        for key in keys:
            facts = self.assigned.get(key, set())
            if not any(fact <= self.conditions for fact in facts) and not self.is_exhaustive(facts):
                self.unassigned[f"{key[0]}[{key[1]}]"] = None

    def is_exhaustive(self, facts: Iterable[Conditions]) -> bool:
        """Whether one of the facts holds: they compare an expression with each of its values."""
        compared: dict[Integer, set[int]] = {}
        for fact in facts:
            match tuple(fact - self.conditions):
                case (("==", sympy.Expr() as difference),):
                    constant, negated = difference.as_coeff_Add()
                    compared.setdefault(-negated, set()).add(int(constant))
        for expr, values in compared.items():
            low, high = bounds(expr, self.ranges)
            if high - low < len(values) and values.issuperset(range(low, high + 1)):
                return True
        return False

    def assign(self, keys: Iterable[Key], *, is_known: bool) -> None:
        for key in keys if is_known else ():
            self.assigned.setdefault(key, set()).add(self.conditions)

    def keys(self, local: Local) -> Iterator[Key]:
        """The values of a local that was declared without them; where the element is unknown, of all."""
        match local:
            case Element(access=access):
                yield from self.elements(access)
            case Component(vector=vector, index=index):
                yield from self.lanes(vector, self.value(index))
            case Vector():
                yield from self.lanes(local, None)
            case _ if local.name in self.declared:
                yield (local.name, 0, 0)

    def lanes(self, vector: Vector, lane: int | None) -> Iterator[Key]:
        if vector.name in self.declared:
            count, width = self.declared[vector.name]
            element = self.vector_position(vector)
            elements = range(count) if element is None else (element,)
            yield from product((vector.name,), elements, range(width) if lane is None else (lane,))

    def elements(self, access: Access, count: int = 1) -> Iterator[Key]:
        name = access.array.symbol
        if access.array.space == "register" and name in self.declared:
            position = self.position(access)
            first, stop = (0, self.declared[name][0]) if position is None else (position, position + count)
            yield from product((name,), range(first, stop), (0,))

    def is_known(self, local: Local) -> bool:
        """Whether it is known which element of an array of vectors, and which lane, it is."""
        match local:
            case Component(vector=vector, index=index):
                return self.vector_position(vector) is not None and self.value(index) is not None
            case Vector():
                return self.vector_position(local) is not None
        return True

    def vector_position(self, vector: Vector) -> int | None:
        """In an array of vectors with rows, row by row."""
        index = 0 if vector.index is None else self.value(vector.index)
        row = 0 if vector.row is None else self.value(vector.row)
        return None if index is None or row is None else index + row * self.columns.get(vector.name, 1)

    def position(self, access: Access) -> int | None:
        return position_of(access, self.value)

    def value(self, expr: Integer) -> int | None:
        return evaluator(expr)(self.known)

    def expanded(self, expr: Integer) -> Integer:
        """In terms of symbols that are not defined by others."""
        values = {symbol: sympy.Integer(self.known[symbol]) for symbol in expr.free_symbols if symbol in self.known}
        others = {symbol: self.definitions[symbol] for symbol in expr.free_symbols if symbol in self.definitions}
        return expr.xreplace(values | others)


def _count(vector: Vector) -> int:
    return max(vector.count, 1) * max(vector.rows, 1)
