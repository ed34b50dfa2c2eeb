"""What a row's reductions came to, in the expressions that use it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from cugen.families.rowwise.statements.nan_free_maxima import exponentials
from cugen.plan.substitution import rebuilt
from cugen.spec.expressions import Cast, Const, Expr, Local, Op, Read, Reduce, Select, children, free_indices, walk
from cugen.spec.types import FLOAT32


@dataclass(frozen=True, slots=True)
class Results:
    """The locals that have the results of the reductions so far."""

    locals: dict[Expr, Local] = field(default_factory=dict)

    def settled(self, expr: Expr) -> Expr:
        """The expression with the results of reductions in their places."""
        return self.locals[expr] if expr in self.locals else rebuilt(expr, self.settled)

    def has_normal_inverse(self, expr: Expr) -> bool:
        """Whether it is a rounded sum with an inverse that is as precise as any number is: that of exponentials, the
        largest of which is 1, or a square root, whose exponent is far from the ends."""
        sums = {local for value, local in self.locals.items() if isinstance(value, Reduce) and value.kind == "sum"}
        match expr:
            case Local():
                return any(local == expr and exponentials(value) for value, local in self.locals.items())
            case Op(name="sqrt"):
                return any(part in sums for part in walk(expr))
        return False


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


def with_reciprocals(expr: Expr, along: str, results: Results, is_kept: Callable[[Expr], bool]) -> Expr:
    """Quotients by results of the row as products with their reciprocals, but for what is kept as it is."""
    if is_kept(expr) or along not in free_indices(expr):
        return expr
    match rebuilt(expr, lambda part: with_reciprocals(part, along, results, is_kept)):
        case Op(name="div", args=(dividend, divisor)) as quotient if (
            _is_result(divisor, along) and expr.dtype == FLOAT32
        ):
            if not results.has_normal_inverse(divisor):
                return replace(quotient, name="divided_by")
            inverse = Op("div", (Const(1, FLOAT32), divisor), FLOAT32)
            return Op("mul", (dividend, inverse), FLOAT32)
        case changed:
            return changed


def _is_result(expr: Expr, along: str) -> bool:
    """Whether it comes from the row's reductions alone."""
    return along not in free_indices(expr) and any(isinstance(part, Local) for part in walk(expr))
