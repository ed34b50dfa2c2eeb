"""Affine forms of subscripts, from which slices are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cugen.spec.expressions import Cast, Const, Expr, IndexValue, Op, ParamValue


@dataclass(frozen=True)
class Affine:
    """Affine form `constant + Σ steps[index] · index`; no step is 0."""

    constant: int
    steps: Mapping[str, int]

    def plus(self, addend: Affine, factor: int = 1) -> Affine:
        names = dict.fromkeys((*self.steps, *addend.steps))
        steps = {name: self.steps.get(name, 0) + factor * addend.steps.get(name, 0) for name in names}
        return Affine(self.constant + factor * addend.constant, {n: s for n, s in steps.items() if s})

    def range(self, extents: Mapping[str, int]) -> tuple[int, int]:
        """Minimum and maximum value; extents are at least 1."""
        ends = [step * (extents[name] - 1) for name, step in self.steps.items()]
        return self.constant + sum(min(0, end) for end in ends), self.constant + sum(max(0, end) for end in ends)


def affine(expr: Expr, params: Mapping[str, int]) -> Affine | None:
    """Affine form of an expression; None if it isn't affine."""
    match expr:
        case Const(value=value):
            return Affine(int(value), {})
        case ParamValue(name=name):
            return Affine(params[name], {})
        case IndexValue(name=name):
            return Affine(0, {name: 1})
        case Cast(arg=arg):
            return affine(arg, params)
        case Op(name="add" | "sub" | "mul" | "neg", args=args):
            operands = [affine(arg, params) for arg in args]
            known = [operand for operand in operands if operand is not None]
            if len(known) < len(args):
                return None
            match expr.name, known:
                case "neg", [x]:
                    return Affine(0, {}).plus(x, -1)
                case "add", [x, y]:
                    return x.plus(y)
                case "sub", [x, y]:
                    return x.plus(y, -1)
                case "mul", [x, y] if not x.steps or not y.steps:
                    factor, addend = (x, y) if not x.steps else (y, x)
                    return Affine(0, {}).plus(addend, factor.constant)
        case Op(name="floordiv" | "mod" as name, args=(left, right)):
            over, under = affine(left, params), affine(right, params)
            if over is not None and under is not None and not over.steps and not under.steps and under.constant:
                a, b = over.constant, under.constant
                return Affine(a // b if name == "floordiv" else a % b, {})
    return None
