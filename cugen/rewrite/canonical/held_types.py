"""Narrow float types that hold values of a wider one: elements of arrays, rounded numbers, and choices of these.

p[i, j] = cast(softmax(s[i, j], j), bfloat16)        a temporary: bfloat16 holds it, and float32 computes it
sum(maximum(x[m, k], 0) * w[k, n], k)                bfloat16 holds the first operand where it holds x
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from cugen.plan.memory import Array
from cugen.spec.expressions import Cast, Const, Expr, Op, Read, Select
from cugen.spec.floats.rounding import rounded
from cugen.spec.model import Spec, Statement
from cugen.spec.types import FLOAT16, FLOAT32, DType

_CHOICES = ("abs", "neg", "maximum", "minimum")  # of their operands, but for the sign


def held_type(value: Expr, arrays: Mapping[str, Array]) -> DType | None:
    """The float type of 8 or 16 bits that holds all numbers of a float32 value; None where none is known to."""
    leaves = tuple(_leaves(value))
    types = {_type_of(leaf, arrays) for leaf in leaves if not isinstance(leaf, Const)}
    dtype = types.pop() if len(types) == 1 else None
    if dtype is None or not dtype.is_float or dtype.bits > FLOAT16.bits or value.dtype != FLOAT32:
        return None
    numbers = (leaf.value for leaf in leaves if isinstance(leaf, Const))
    return dtype if all(rounded(number, dtype) == number for number in numbers) else None


def _leaves(value: Expr) -> Iterator[Expr]:
    """The expressions whose numbers a value has, or their opposites."""
    match value:
        case Op(name=name, args=args) if name in _CHOICES and value.dtype.is_float:
            for arg in args:
                yield from _leaves(arg)
        case Select(then=then, orelse=orelse):
            yield from _leaves(then)
            yield from _leaves(orelse)
        case Cast(arg=arg, to=to) if to.is_float and arg.dtype.is_float and to == to.compute:
            yield from _leaves(arg)
        case _:
            yield value


def _type_of(leaf: Expr, arrays: Mapping[str, Array]) -> DType | None:
    match leaf:
        case Read(array=array):
            return arrays[array].dtype
        case Cast(to=to):
            return to
    return None


def with_rounded_temporaries(spec: Spec) -> Spec:
    """The spec with temporaries whose values `cast` rounds to 16 bits declared as of that type, which rounds them where
    they are stored; the same object if there are none."""
    written = Counter(statement.target for statement in spec.statements)
    undeclared = {a.name for a in spec.arrays if a.is_temporary and a.memory.space is None and written[a.name] == 1}
    types: dict[str, DType] = {}
    statements = list[Statement]()
    for statement in spec.statements:
        match statement.value:
            case Cast(arg=arg, to=to) if to.is_float and to.bits == FLOAT16.bits and arg.dtype == to.compute:
                if statement.target in undeclared and not statement.accumulate:
                    types[statement.target] = to
                    statement = replace(statement, value=arg)
        statements.append(statement)
    if not types:
        return spec
    arrays = tuple(replace(a, dtype=types.get(a.name, a.dtype)) for a in spec.arrays)
    return replace(spec, arrays=arrays, statements=tuple(statements))
