"""The results of a row's reductions, in the expressions that use them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from cugen.families.rowwise.statements.nan_free_maxima import subtracted_maximum
from cugen.spec.expressions import Cast, Const, Expr, Local, Op, Read, Reduce, Select, children, free_indices, walk
from cugen.spec.rewriting import rebuild
from cugen.spec.types import FLOAT32


@dataclass(frozen=True, slots=True)
class Results:
    """The locals with the results of the reductions so far."""

    locals: dict[Expr, Local] = field(default_factory=dict)

    def resolved(self, expr: Expr) -> Expr:
        """The expression with its reductions replaced by their results."""
        return self.locals[expr] if expr in self.locals else rebuild(expr, self.resolved)

    def has_normal_inverse(self, expr: Expr) -> bool:
        """Whether 1 / expr is a normal number, hence accurate, and expr itself rounded: so for a sum of exponentials,
        whose largest term is 1, and for a square root of sums, whose exponent is far from the limits."""
        sums = {local for value, local in self.locals.items() if isinstance(value, Reduce) and value.kind == "sum"}
        match expr:
            case Local():
                return any(local == expr and subtracted_maximum(value) for value, local in self.locals.items())
            case Op(name="sqrt"):
                return any(part in sums for part in walk(expr))
        return False


def row_invariants(expr: Expr, along: str) -> Iterator[Expr]:
    """The largest subexpressions that are invariant along the row and computed from results, without reads."""
    if isinstance(expr, Reduce):
        for part in (expr.body, *(() if expr.where is None else (expr.where,))):
            yield from row_invariants(part, along)
        return
    if isinstance(expr, Op | Select | Cast) and along not in free_indices(expr):
        nodes = list(walk(expr))
        if any(isinstance(n, Local) for n in nodes) and not any(isinstance(n, Read | Reduce) for n in nodes):
            yield expr
            return
    for child in children(expr):
        yield from row_invariants(child, along)


def with_reciprocals(expr: Expr, along: str, results: Results, is_cached: Callable[[Expr], bool]) -> Expr:
    """Divisions by row invariants as multiplications by their reciprocals; cached values stay as they are."""
    if is_cached(expr) or along not in free_indices(expr):
        return expr
    changed = rebuild(expr, lambda part: with_reciprocals(part, along, results, is_cached))
    if not isinstance(changed, Op) or changed.name != "div" or expr.dtype != FLOAT32:
        return changed
    dividend, divisor = changed.args
    if along in free_indices(divisor) or not any(isinstance(part, Local) for part in walk(divisor)):
        return changed
    if not results.has_normal_inverse(divisor):
        return replace(changed, name="divided_by")
    return Op("mul", (dividend, Op("div", (Const(1, FLOAT32), divisor), FLOAT32)), FLOAT32)
