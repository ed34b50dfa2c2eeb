"""The symbol table of a spec's declarations."""

from __future__ import annotations

from dataclasses import dataclass, field

from cugen.spec.expressions import Expr, Span
from cugen.spec.model import Array, Param, Precision, Scalar
from cugen.spec.types import DType


@dataclass(frozen=True, slots=True)
class Declarations:
    """The declared names, in the order of the file.

    `arrays` have shapes and strides as integer trees over params; their role is "" until the statements are resolved.
    `indices` are the explicit extents of `indices:`, each (name, extent, span). `accumulate` is the accumulator type,
    or None for each operand's default, `precision` what lower precisions it allows. `broken` are names with an invalid
    declaration; uses of them report no further errors.
    """

    params: tuple[Param, ...] = ()
    scalars: tuple[Scalar, ...] = ()
    arrays: tuple[Array, ...] = ()
    indices: tuple[tuple[str, Expr, Span], ...] = ()
    accumulate: DType | None = None
    precision: Precision = field(default=Precision())
    broken: tuple[str, ...] = ()
