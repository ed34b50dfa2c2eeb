"""Names of a row's values in the kernel: those of the spec where it has some, else by the operation."""

from __future__ import annotations

from dataclasses import dataclass, field

from cugen.families.rowwise.statements.recognition import RowProblem
from cugen.families.rowwise.statements.results import Results, row_invariants
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.nodes import Let
from cugen.plan.scopes import Scope
from cugen.spec.expressions import Const, Expr, Local, Op, Read


@dataclass(frozen=True, slots=True)
class RowNames:
    """Allocates names. The name of a temporary goes to one local only; those in `taken` are in use."""

    problem: RowProblem
    lowering: Lowering
    results: Results
    taken: dict[str, None] = field(default_factory=dict)

    def allocate(self, expr: Expr, default: str, suffix: str = "") -> str:
        """A name for a value, from the spec's name for it or else from `default`."""
        for known, target in self.problem.names.items():
            if expr not in (known, self.results.resolved(known)):
                continue
            if any(output.target == target for output in self.problem.outputs):
                default = f"{target.lower()}_value"
            elif suffix or target in self.taken:
                default = target
            else:
                self.taken[target] = None
                return self.lowering.arrays[target].symbol
        if suffix and default[-1].isdigit():
            default += "_"
        return self.lowering.names.allocate(default + suffix)

    def hoist(self, values: tuple[Expr, ...], along: str, root: Scope) -> None:
        """Computes row invariants (functions of reduction results) once, outside of the loops over elements."""
        for value in values:
            for expr in row_invariants(value, along):
                if root.recall(expr) is None:
                    result = self.lowering.lower(expr, root)
                    if not isinstance(result, Local):
                        local = Local(self.allocate(expr, name_hint(expr)), expr.dtype)
                        root.nodes.append(Let(local, result))
                        result = local
                    root.remember(expr, result)


def name_hint(expr: Expr) -> str:
    """A name for a value that the spec doesn't name."""
    match expr:
        case Read(array=array):
            return array.lower()
        case Op(name="div", args=(Local(), _)):
            return "mean"
        case Op(name="div", args=(Const(value=1), _)):
            return "inverse"
        case Op(name="add"):
            return "total"
        case Op(name=name):
            return {"sub": "difference", "mul": "product", "div": "quotient"}.get(name, f"{name}_value")
    return "value"
