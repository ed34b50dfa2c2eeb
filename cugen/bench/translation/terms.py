"""Pieces of a peer's text, with the index of each dimension."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cugen.bench.translation.dialects import NoPeer
from cugen.spec.types import DType, promote

Number = int | float | bool


@dataclass(frozen=True)
class Stored:
    """An array that has a name in the text: an argument, or what a statement computed."""

    name: str
    shape: tuple[int, ...]
    dtype: DType


@dataclass(frozen=True)
class Term:
    """An expression of the library. `axes` names the index of each dimension; `literal` is the value of a Python
    number. A view shares its elements with an argument; a permuted array lies in memory in another order."""

    text: str
    axes: tuple[str, ...]
    dtype: DType
    literal: Number | None = None
    is_atom: bool = True  # needs no parentheses
    is_view: bool = False
    is_permuted: bool = False

    @property
    def is_literal(self) -> bool:
        return self.literal is not None

    @property
    def atom(self) -> str:
        return self.text if self.is_atom else f"({self.text})"


def promoted(terms: Sequence[Term]) -> DType:
    """The type that a library gives the combination of some operands: Python numbers take the arrays' type."""
    arrays = [term for term in terms if not term.is_literal] or terms
    return functools.reduce(promote, (term.dtype for term in arrays))


_FOLDED: Mapping[str, Callable[..., Number]] = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "floordiv", "mod", "pow", "neg", "abs")},
    **{name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{name: getattr(math, name) for name in ("sqrt", "exp", "log", "log2", "floor", "ceil", "sin", "cos", "tanh")},
    "div": operator.truediv,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "maximum": max,
    "minimum": min,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "not": operator.not_,
}


def fold(name: str, operands: Sequence[Number]) -> Number:
    """The value of an operator of the language between numbers."""
    if name not in _FOLDED:
        raise NoPeer(f"{name} of numbers")
    try:
        return _FOLDED[name](*operands)
    except (ArithmeticError, ValueError) as error:
        raise NoPeer(f"{name} of numbers: {error}") from error


def slice_text(start: int, stop: int, step: int, size: int) -> str:
    """A slice of a dimension of `size` elements; what is said anyway is left out."""
    first = str(start) if start else ""
    last = str(stop) if stop < size else ""
    return f"{first}:{last}" + (f":{step}" if step > 1 else "")
