"""Names for a row's values: what the spec calls them, else what they are."""

from __future__ import annotations

from dataclasses import dataclass, field

from cugen.families.rowwise.statements.recognition import RowWork
from cugen.families.rowwise.statements.results import Results, fixed
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.nodes import Let
from cugen.plan.scopes import Scope
from cugen.spec.expressions import Const, Expr, Local, Op, Read


@dataclass(frozen=True, slots=True)
class RowNames:
    """Gives names, that of a temporary to one local only: those in `taken` have theirs."""

    work: RowWork
    lowering: Lowering
    results: Results
    taken: dict[str, None] = field(default_factory=dict)

    def give(self, expr: Expr, otherwise: str, suffix: str = "") -> str:
        """A name for a value: what the spec calls it, where it does."""
        for known, target in self.work.names.items():
            if expr not in (known, self.results.settled(known)):
                continue
            if any(output.target == target for output in self.work.outputs):
                otherwise = f"{target.lower()}_value"
            elif suffix or target in self.taken:
                otherwise = target
            else:
                self.taken[target] = None
                return self.lowering.arrays[target].symbol
        if suffix and otherwise[-1].isdigit():
            otherwise += "_"
        return self.lowering.names.allocate(otherwise + suffix)

    def hoist(self, values: tuple[Expr, ...], along: str, root: Scope) -> None:
        """Names for what is the same all along the row, computed from the results of reductions."""
        for value in values:
            for expr in fixed(value, along):
                if root.recall(expr) is None:
                    result = self.lowering.lower(expr, root)
                    if not isinstance(result, Local):
                        local = Local(self.give(expr, wish(expr)), expr.dtype)
                        root.nodes.append(Let(local, result))
                        result = local
                    root.remember(expr, result)


def wish(expr: Expr) -> str:
    """A name for a value that the spec has none for."""
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
