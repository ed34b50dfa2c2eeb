"""Lexical scopes of expressions: indices, and the arguments of an expansion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cugen.spec.expressions import Expr
from cugen.spec.resolve.typing_rules import Value
from cugen.spec.types import DType


@dataclass(frozen=True, slots=True)
class BoundIndex:
    """An index in scope: its unique name in trees, its extent, and whether the left side binds it."""

    name: str
    extent: Expr
    is_left: bool = False


@dataclass(frozen=True, slots=True)
class Scope:
    """The names in scope. `widen` is the accumulator type to which narrower terms of a sum are converted."""

    names: Mapping[str, BoundIndex | Value] = field(default_factory=dict)
    widen: DType | None = None

    def bind(self, more: Mapping[str, BoundIndex]) -> Scope:
        """The nested scope with more indices."""
        return replace(self, names={**self.names, **more})

    @property
    def without_widening(self) -> Scope:
        """The scope without widening, for conditions and subscripts, which aren't terms of the sum."""
        return replace(self, widen=None)


def is_narrower(dtype: DType, than: DType) -> bool:
    """Whether a term is widened to its accumulator type: the same kind with fewer bits."""
    same_kind = (dtype.is_float and than.is_float) or (dtype.is_integer and than.is_integer)
    return same_kind and dtype.bits < than.bits
