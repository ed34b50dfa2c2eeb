"""Elements of an array that differ in one constant subscript, 0, 1, 2 …: one loop loads or stores a vector of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from cugen.pieces.loop_variables import shared_loop_variable, unrolled
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Vector
from cugen.plan.nodes import Node
from cugen.plan.symbols import Integer
from cugen.spec.expressions import Const, Expr, IndexValue, Read
from cugen.spec.model import Statement

MIN_COUNT = 4  # below which a line for each is as easy to read

E = TypeVar("E", Read, Statement)


@dataclass(frozen=True, slots=True)
class NumberedElements(Generic[E]):
    """Reads or statements of one array, in the order of their constant subscript in a dimension."""

    elements: tuple[E, ...]
    dimension: int

    @property
    def count(self) -> int:
        return len(self.elements)

    @property
    def other_constants(self) -> tuple[str, ...]:
        """The constant subscripts that all of them have."""
        others = enumerate(self.elements[0].subscripts)
        return tuple(str(sub.value) for d, sub in others if isinstance(sub, Const) and d != self.dimension)

    def each(self, lowering: Lowering, node_of: Callable[[E, Integer], Node]) -> Node:
        """An unrolled loop over a number: with the element that has it as a subscript, and the number."""
        number = shared_loop_variable("number", (0, self.count - 1), lowering)
        lowering.symbols[number.name] = number.symbol
        subscripts = list(self.elements[0].subscripts)
        subscripts[self.dimension] = IndexValue(number.name)
        node = node_of(replace(self.elements[0], subscripts=tuple(subscripts)), number.symbol)
        del lowering.symbols[number.name]
        return unrolled(number, (node,))


def numbered_elements(elements: Sequence[E], array_of: Callable[[E], str]) -> list[NumberedElements[E]]:
    """The elements that are so many of an array; an element is in one of the results at most."""
    groups: list[NumberedElements[E]] = []
    remaining = list(elements)
    for element in elements:
        for dimension in range(len(element.subscripts)):
            if element not in remaining:
                break
            group = _group(element, dimension, remaining, array_of)
            if group is not None:
                groups.append(group)
                remaining = [candidate for candidate in remaining if candidate not in group.elements]
    return groups


def _group(
    element: E, dimension: int, elements: Iterable[E], array_of: Callable[[E], str]
) -> NumberedElements[E] | None:
    """The elements that differ from one in a dimension alone, if their subscripts there are 0, 1, 2 …"""

    def position(element: E) -> tuple[str, tuple[Expr, ...]]:
        return array_of(element), element.subscripts[:dimension] + element.subscripts[dimension + 1 :]

    numbers: dict[int, E] = {}
    for candidate in elements:
        if position(candidate) == position(element) and isinstance(sub := candidate.subscripts[dimension], Const):
            numbers[int(sub.value)] = candidate
    if len(numbers) < MIN_COUNT or sorted(numbers) != list(range(len(numbers))):
        return None
    return NumberedElements(tuple(numbers[n] for n in range(len(numbers))), dimension)


@dataclass(frozen=True, slots=True)
class GatheredStores:
    """The vectors of the results of statements: one of its own each, or one of an array."""

    single: tuple[tuple[Statement, Vector], ...]
    arrays: tuple[tuple[NumberedElements[Statement], Vector], ...] = ()

    @property
    def vectors(self) -> tuple[Vector, ...]:
        """All of them, arrays as a whole."""
        return (*(vector for _, vector in self.single), *(vector for _, vector in self.arrays))

    def stores(self, lowering: Lowering, store: Callable[[Statement, Vector], Node]) -> list[Node]:
        """The store of each vector, in a loop over those of an array."""

        def of_array(numbered: NumberedElements[Statement], vectors: Vector) -> Node:
            return numbered.each(lowering, lambda statement, number: store(statement, vectors.indexed(number)))

        single = (store(statement, vector) for statement, vector in self.single)
        return [*single, *(of_array(numbered, vectors) for numbered, vectors in self.arrays)]
