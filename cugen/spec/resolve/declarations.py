"""What a spec declares before any of its statements is read: the names that an expression may use."""

from __future__ import annotations

from dataclasses import dataclass

from cugen.spec.expressions import Expr, Span
from cugen.spec.model import Array, Param, Scalar
from cugen.spec.types import DType


@dataclass(frozen=True, slots=True)
class Declarations:
    """The declared names, in the order of the file.

    `arrays` have shapes and strides as integer trees over params and the role "", which the statements decide.
    `indices` are the explicit extents of `indices:`, each (name, extent, place). `accumulate` is the type of running
    sums, or None for each operand's default. `broken` are names whose declaration was refused: what uses them isn't
    reported again.
    """

    params: tuple[Param, ...] = ()
    scalars: tuple[Scalar, ...] = ()
    arrays: tuple[Array, ...] = ()
    indices: tuple[tuple[str, Expr, Span], ...] = ()
    accumulate: DType | None = None
    broken: tuple[str, ...] = ()
