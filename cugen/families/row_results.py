"""What a row's reductions came to, in the expressions that use it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from cugen.plan.substitution import rebuilt
from cugen.spec.expressions import Cast, Expr, Local, Op, Read, Reduce, Select, children, free_indices, walk
from cugen.spec.types import FLOAT32


@dataclass(frozen=True, slots=True)
class Results:
    """The locals that have the results of the reductions so far."""

    locals: dict[Expr, Local] = field(default_factory=dict)

    def settled(self, expr: Expr) -> Expr:
        """The expression with the results of reductions in their places."""
        return self.locals[expr] if expr in self.locals else rebuilt(expr, self.settled)


def fixed(expr: Expr, along: str) -> Iterator[Expr]:
    """The largest parts that are the same all along the row and are computed from results, not from memory."""
    if isinstance(expr, Reduce):
        for part in (expr.body, *(() if expr.where is None else (expr.where,))):
            yield from fixed(part, along)
        return
    if isinstance(expr, Op | Select | Cast) and along not in free_indices(expr):
        nodes = list(walk(expr))
        if any(isinstance(n, Local) for n in nodes) and not any(isinstance(n, Read | Reduce) for n in nodes):
            yield expr
            return
    for child in children(expr):
        yield from fixed(child, along)


def with_reciprocals(expr: Expr, along: str, is_kept: Callable[[Expr], bool]) -> Expr:
    """Quotients by results of the row as products with their reciprocals, but for what is kept as it is."""
    if is_kept(expr) or along not in free_indices(expr):
        return expr
    match rebuilt(expr, lambda part: with_reciprocals(part, along, is_kept)):
        case Op(name="div", args=(_, divisor)) as quotient if _is_result(divisor, along) and expr.dtype == FLOAT32:
            return replace(quotient, name="divided_by")
        case changed:
            return changed


def _is_result(expr: Expr, along: str) -> bool:
    """Whether it comes from the row's reductions alone."""
    return along not in free_indices(expr) and any(isinstance(part, Local) for part in walk(expr))
