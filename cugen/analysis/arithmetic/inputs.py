"""The inputs of a statement's value at one point of its iteration space, and values of them to try."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from cugen.analysis.arithmetic.exact import Numbers
from cugen.spec.expressions import (
    Boundary,
    Expr,
    Index,
    IndexValue,
    Read,
    Reduce,
    ScalarValue,
    Scan,
    walk,
)
from cugen.spec.model import Array, Spec, Statement
from cugen.spec.prove.integers import evaluate
from cugen.spec.types import DType

MAX_CASES = 1 << 16  # combinations of values that are tried
MAX_EVALUATIONS = 1 << 22  # of the parts of a statement, in all cases; bounds the time of a check
_KNOWN_BITS = 16  # of the widest elements that are taken to have any value of their type
_MAX_NODES = 4000  # of a value with its temporaries expanded; bounds the time of a check


@dataclass(frozen=True, slots=True)
class Input:
    """An element of an array, or a scalar. `text` is its name in the spec."""

    name: str
    element: tuple[Expr, ...] | tuple[int, ...]  # its subscripts; expressions if they depend on data
    text: str
    dtype: DType


class TooLarge(Exception):
    """A value with too many parts."""


@dataclass(frozen=True)
class Point:
    """The values of indices and params. A `uniform` one has equal elements in each array."""

    values: Mapping[str, int]
    uniform: bool = False

    def extended(self, indices: Mapping[str, int]) -> Point:
        """The point with these indices as well."""
        return replace(self, values={**self.values, **indices})

    def number(self, expr: Expr) -> int | None:
        """The value of a subscript or extent; None if it depends on data."""
        try:
            return evaluate(expr, self.values)
        except (KeyError, TypeError):
            return None


@dataclass(frozen=True)
class Sources:
    """What the values that a statement reads come from."""

    spec: Spec
    arrays: Mapping[str, Array]
    definitions: Mapping[
        str, Statement
    ]  # of temporaries and outputs that one earlier statement defines for all indices
    written: frozenset[str]  # by earlier statements

    @classmethod
    def of(cls, spec: Spec, before: int) -> Sources:
        """The sources of a statement after so many others."""
        earlier = spec.statements[:before]
        targets = [statement.target for statement in earlier]
        definitions = {s.target: s for s in earlier if targets.count(s.target) == 1 and _defines_everything(s)}
        return cls(spec, {array.name: array for array in spec.arrays}, definitions, frozenset(targets))

    def point(self, indices: tuple[Index, ...], where: int) -> Point | None:
        """The point at the first (0), middle (1) or last (2) value of all indices; None if one has none."""
        values = {param.name: param.typical for param in self.spec.params}
        return with_indices(Point(values), indices, where)

    def of_read(self, read: Read, point: Point) -> Input | int | Statement | None:
        """What an element is: an input, a number, or an element of a definition; None where that isn't known, as of 32
        and 64 bits: no spec says how large they are."""
        array = self.arrays.get(read.array)
        subscripts = tuple(point.number(subscript) for subscript in read.subscripts)
        if read.exact or array is None:
            return None
        if read.array in self.definitions and None not in subscripts:
            return self.definitions[read.array]
        if read.array in self.written or array.is_temporary or not is_known(array.dtype):
            return None
        if point.uniform:
            return None if read.boundary or array.values else Input(array.name, (), f"all of {array.name}", array.dtype)
        coordinates = tuple(number for number in subscripts if number is not None)
        if len(coordinates) < len(subscripts):
            return Input(array.name, read.subscripts, f"an element of {array.name}", array.dtype)
        return self._element(array, coordinates, read.boundary, point)

    def _element(
        self, array: Array, coordinates: tuple[int, ...], boundary: Boundary | None, point: Point
    ) -> Input | int | None:
        shape = [point.number(extent) for extent in array.shape]
        sizes = [size for size in shape if size is not None]
        if len(sizes) < len(shape):
            return None
        if not all(0 <= c < size for c, size in zip(coordinates, sizes, strict=True)):
            return 0 if boundary is not None and boundary.mode == "zero" else None
        if array.values is not None:
            position = 0
            for coordinate, size in zip(coordinates, sizes, strict=True):
                position = position * size + coordinate
            return int(array.values.data[position])
        return Input(array.name, coordinates, f"{array.name}[{', '.join(map(str, coordinates))}]", array.dtype)

    def of_scalar(self, scalar: ScalarValue) -> Input | int | None:
        """A scalar of integers."""
        declared = self.spec.scalar(scalar.name)
        if declared.dtype.is_float:
            return None
        if declared.value is not None:
            return int(declared.value)
        return Input(scalar.name, (), scalar.name, declared.dtype) if is_known(declared.dtype) else None


def is_known(dtype: DType) -> bool:
    """Whether elements are taken to have any value of their type."""
    return not dtype.is_float and dtype.bits <= _KNOWN_BITS


def with_indices(point: Point, indices: tuple[Index, ...], where: int) -> Point | None:
    """The point with the first (0), middle (1) or last (2) value of indices as well; None if one has none."""
    values: dict[str, int] = {}
    for index in indices:
        extent = point.number(index.extent)
        if extent is None or extent < 1:
            return None
        values[index.name] = (0, extent // 2, extent - 1)[where]
    return point.extended(values)


def definition_point(statement: Statement, read: Read, point: Point) -> Point | None:
    """The point of a definition whose element a read has."""
    numbers = [point.number(subscript) for subscript in read.subscripts]
    values = {
        subscript.name: number
        for subscript, number in zip(statement.subscripts, numbers, strict=True)
        if isinstance(subscript, IndexValue) and number is not None
    }
    if len(values) < len(numbers):
        return None
    for index in statement.indices:
        extent = point.number(index.extent)
        if extent is None or not 0 <= values[index.name] < extent:
            return None
    return point.extended(values)


def inputs_of(value: Expr, point: Point, sources: Sources, where: int) -> tuple[tuple[Input, ...], int]:
    """The inputs that a value depends on, each once, and how many parts it has. TooLarge if there are too many."""
    inputs: dict[Input, None] = {}
    pending = [(value, point)]
    visited = 0
    while pending:
        root, here = pending.pop()
        nodes = tuple(walk(root))
        visited += len(nodes)
        if visited > _MAX_NODES:
            raise TooLarge
        inner = with_indices(here, tuple(_bound(nodes)), where)
        if inner is None:
            continue
        for node in nodes:
            source: Input | int | Statement | None = None
            if isinstance(node, ScalarValue):
                source = sources.of_scalar(node)
            elif isinstance(node, Read):
                source = sources.of_read(node, inner)
            if isinstance(source, Input):
                inputs[source] = None
            elif isinstance(source, Statement) and isinstance(node, Read):
                there = definition_point(source, node, inner)
                if there is not None:
                    pending.append((source.value, there))
    return tuple(each for each in inputs if not _may_be_another(each, inputs)), visited


def _may_be_another(each: Input, inputs: Iterable[Input]) -> bool:
    """Whether an element whose subscripts depend on data may be the same as another input."""
    elements = [candidate.element for candidate in inputs if candidate.name == each.name]
    return len(elements) > 1 and any(not isinstance(part, int) for element in elements for part in element)


def _bound(nodes: tuple[Expr, ...]) -> Iterator[Index]:
    for node in nodes:
        if isinstance(node, Reduce):
            yield from node.indices
        elif isinstance(node, Scan):
            yield node.inner


def cases(inputs: tuple[Input, ...], parts: int) -> dict[Input, Numbers]:
    """Values of the inputs of an expression of so many parts, a case in each position: all combinations if these are
    few, else those of the extreme values, else all at their lowest and all at their highest."""
    limit = min(MAX_CASES, MAX_EVALUATIONS // parts)
    domains: list[Sequence[int]] = [range(each.dtype.lowest, each.dtype.highest + 1) for each in inputs]
    if prod(map(len, domains)) > limit:
        domains = [(each.dtype.lowest, each.dtype.highest) for each in inputs]
    if 2 ** len(inputs) <= limit:
        columns = [grid.ravel() for grid in np.meshgrid(*map(_numbers, domains), indexing="ij")]
    else:
        columns = [_numbers(domain) for domain in domains]
    return dict(zip(inputs, columns, strict=True))


def _numbers(domain: Sequence[int]) -> Numbers:
    return np.array(domain, dtype=np.int64)


def _defines_everything(statement: Statement) -> bool:
    names = [subscript.name for subscript in statement.subscripts if isinstance(subscript, IndexValue)]
    return not statement.accumulate and len(set(names)) == len(statement.subscripts)
