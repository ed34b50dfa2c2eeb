"""What names mean at one place of an expression: indices in scope, and the arguments of an expansion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cugen.spec.expressions import Expr
from cugen.spec.resolve.typing_rules import Value
from cugen.spec.types import DType


@dataclass(frozen=True, slots=True)
class Bound:
    """An index in scope: the name that trees have for it now, its extent, and whether the left side binds it."""

    name: str
    extent: Expr
    is_left: bool = False


@dataclass(frozen=True, slots=True)
class Scope:
    """What names mean at one place. `widen` is the type that a running sum's narrower terms are brought to."""

    names: Mapping[str, Bound | Value] = field(default_factory=dict)
    widen: DType | None = None

    def binding(self, more: Mapping[str, Bound]) -> Scope:
        return replace(self, names={**self.names, **more})

    @property
    def plain(self) -> Scope:
        """For conditions and the like, whose terms nobody adds up."""
        return replace(self, widen=None)


def is_narrower(dtype: DType, than: DType) -> bool:
    """Whether a term is brought to the type of its running sum: it is of the same kind and has fewer bits."""
    same = (dtype.is_float and than.is_float) or (dtype.is_integer and than.is_integer)
    return same and dtype.bits < than.bits
