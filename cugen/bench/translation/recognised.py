"""Recognition of expansions for which libraries have a function."""

from __future__ import annotations

from dataclasses import dataclass

from cugen.spec.expressions import Expr, Op, Reduce, free_indices
from cugen.spec.rewriting import rename


@dataclass(frozen=True)
class Softmax:
    """Softmax of `body` over the index `over`, or its logarithm."""

    body: Expr
    over: str
    log: bool


def softmax(expr: Expr) -> Softmax | None:
    """Recognises the expansions of softmax and log_softmax; None for other expressions."""
    match expr:
        case Op(name="div", args=(Op(name="exp", args=(shifted,)), Reduce(kind="sum") as total)):
            log = False
        case Op(name="sub", args=(shifted, Op(name="log", args=(Reduce(kind="sum") as total,)))):
            log = True
        case _:
            return None
    match shifted:
        case Op(name="sub", args=(body, Reduce(kind="max") as maximum)):
            over = free_indices(body) - free_indices(maximum)
        case _:
            return None
    if len(over) != 1 or len(total.indices) != 1 or len(maximum.indices) != 1 or total.where or maximum.where:
        return None
    (name,) = over
    exponents = Op("exp", (rename(shifted, {name: total.indices[0].name}),), total.dtype)
    if total.body != exponents or maximum.body != rename(body, {name: maximum.indices[0].name}):
        return None
    return Softmax(body, name, log)
