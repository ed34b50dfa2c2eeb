"""Terms: expressions in a library's text, with the index of each dimension."""

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
    """Named array: an argument, or the result of a statement."""

    name: str
    shape: tuple[int, ...]
    dtype: DType


@dataclass(frozen=True)
class Term:
    """Expression of a library. `axes`: index of each dimension. `literal`: value of a Python number. A view shares
    memory with an argument; a permuted array isn't row-major."""

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
    """Type promotion of a library; Python numbers take the arrays' type."""
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
    """Constant-folds an operator. Raises NoPeer if it is undefined."""
    if name not in _FOLDED:
        raise NoPeer(f"{name} of numbers")
    try:
        return _FOLDED[name](*operands)
    except (ArithmeticError, ValueError) as error:
        raise NoPeer(f"{name} of numbers: {error}") from error


def slice_text(start: int, stop: int, step: int, size: int) -> str:
    """Slice of a dimension of `size` elements, without redundant parts."""
    first = str(start) if start else ""
    last = str(stop) if stop < size else ""
    return f"{first}:{last}" + (f":{step}" if step > 1 else "")
