"""The typed expression tree (AST) of a spec, after resolution of names, types and extents.

A tree is built only by `cugen.spec.resolve.resolve`, which guarantees:

- every node's `dtype` is a *compute* type (float32, float64, an integer type or bool; never a narrower float), and
  operands are converted to the operator's type by explicit `Cast` nodes;
- functions that are defined by an expansion (`softmax`, `gelu`, `mean`, `var`, `norm` ...) are expanded;
- bound indices have unique names within a statement;
- subscripts are integer trees (dtype int64) over `Const`, `IndexValue`, `ParamValue`, `Read` (a gather) and the
  operators add, sub, mul, neg, floordiv, mod.

Spans don't take part in comparison: equal expressions at two locations compare equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from cugen.spec.types import BOOL, INT64, DType


@dataclass(frozen=True, slots=True)
class Span:
    """A range of source text: 1-based lines and columns, the end exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


NOWHERE = Span(0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Const:
    """A literal; integers of any size are exact, floats are doubles (`inf` and `nan` included)."""

    value: int | float | bool
    dtype: DType


@dataclass(frozen=True, slots=True)
class IndexValue:
    """The value of an index at this point of the iteration space (int64)."""

    name: str
    dtype: DType = field(default=INT64, hash=False)


@dataclass(frozen=True, slots=True)
class ParamValue:
    """The value of a param (int64), static or dynamic."""

    name: str
    dtype: DType = field(default=INT64, hash=False)


@dataclass(frozen=True, slots=True)
class ScalarValue:
    """The value of an entry of `scalars`, in its compute type."""

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class Boundary:
    """The value of an out-of-bounds read: `mode` is zero, clamp, wrap, reflect, symmetric or value (then `value` is the
    constant).

    `reflect` mirrors about the first and last element without repeating them, `symmetric` repeats them (numpy.pad's
    "reflect" and "symmetric")."""

    mode: str
    value: int | float | bool | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """One element of an array or temporary, in the compute type of its element type.

    `boundary` is None if the read is proved in bounds (for a gather: assumed). `exact` holds a pair (dividend, divisor)
    for each exact division `/` in a subscript: the subscript has the floor division, and the read is out of bounds
    where `dividend % divisor` is not 0.
    """

    array: str
    subscripts: tuple[Expr, ...]
    dtype: DType
    boundary: Boundary | None = None
    exact: tuple[tuple[Expr, int], ...] = ()
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Sample:
    """The value of a 2-D texture at a point between elements, by linear filtering.

    `coordinates` are float32 trees, one for each dimension of the array, with the elements at whole numbers. They are
    values, not subscripts: a sample is to be treated as a function of them. `boundary` is None if the point is proved
    to be between elements."""

    array: str
    coordinates: tuple[Expr, ...]
    dtype: DType
    boundary: Boundary | None = None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Op:
    """An operator or function whose operands are all evaluated. `name` is a key of `OPERATORS`."""

    name: str
    args: tuple[Expr, ...]
    dtype: DType
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Select:
    """`then` where the condition holds, else `orelse`; only the chosen branch is evaluated."""

    condition: Expr
    then: Expr
    orelse: Expr
    dtype: DType
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Cast:
    """A conversion. The value is rounded to `to`; the node's own dtype is `to.compute`.

    Float to integer truncates toward zero and saturates at the 32- or 64-bit range that holds `to` (NaN gives 0),
    then wraps to `to`. `is_written`: a `cast` of the spec, and no conversion that the rules of types ask for.
    """

    arg: Expr
    to: DType
    span: Span = field(default=NOWHERE, compare=False)
    is_written: bool = field(default=False, compare=False)

    @property
    def dtype(self) -> DType:
        """The compute type of the conversion."""
        return self.to.compute


@dataclass(frozen=True, slots=True)
class Index:
    """An index and its extent (an integer tree over params): it runs over 0 .. extent - 1."""

    name: str
    extent: Expr


@dataclass(frozen=True, slots=True)
class Reduce:
    """A reduction over all values of `indices` where `where` holds.

    `kind`: sum prod max min any all argmax argmin. An empty sum is 0, prod 1, max the type's lowest, min its highest
    (-inf and inf for floats), any false, all true. argmax and argmin (one index, result int64) give the first of equal
    values, and NaN compares as the extremum. `body` has dtype `dtype`, except for argmax and argmin.
    """

    kind: str
    body: Expr
    indices: tuple[Index, ...]
    dtype: DType
    where: Expr | None = None
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def is_position(self) -> bool:
        """Whether it gives the position of an extreme element: argmax and argmin."""
        return self.kind in ("argmax", "argmin")


@dataclass(frozen=True, slots=True)
class Scan:
    """A prefix reduction (scan) along `outer`, an index of the left side, at its current value.

    `kind`: sum prod max min. The value is the reduction of `body` over `inner` (which has outer's extent) from 0 to
    outer's value, inclusive unless `exclusive`; with `reverse` from outer's value to the end.
    """

    kind: str
    body: Expr
    inner: Index
    outer: str
    dtype: DType
    exclusive: bool = False
    reverse: bool = False
    where: Expr | None = None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Local:
    """A local variable of a kernel, by its name. Occurs in plans only, never in a spec."""

    name: str
    dtype: DType


Expr = Const | IndexValue | ParamValue | ScalarValue | Read | Sample | Op | Select | Cast | Reduce | Scan | Local

# Operations that cost more than a register to hold their result.
COSTLY_OPERATIONS: tuple[str, ...] = (
    *("div", "floordiv", "mod", "pow", "sqrt", "rsqrt", "cbrt", "erf", "erfc", "lgamma", "atan2"),
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan"),
    *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
)
MAX_MULTIPLIED_POWER = 8  # literal exponents from 2 to this one are multiplications

# name -> number of operands. Comparisons, logic and the predicates give bool; the rest give their operands' type.
# Integer `floordiv` and `mod` have floor semantics and yield 0 where the divisor is 0; `div` is true division;
# `pow` of integers wraps, and a negative exponent yields 0 except for bases 1 and -1; shifts by a count outside
# 0 .. bits - 1 shift everything out. `round` is half to even. `maximum` and `minimum` propagate NaN.
OPERATORS: dict[str, int] = {
    **dict.fromkeys(("add", "sub", "mul", "div", "floordiv", "mod", "pow"), 2),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge", "and", "or"), 2),
    **dict.fromkeys(("bitand", "bitor", "bitxor", "shl", "shr", "maximum", "minimum", "atan2"), 2),
    **dict.fromkeys(("neg", "not", "invert", "abs", "sign", "floor", "ceil", "round", "trunc"), 1),
    **dict.fromkeys(("sqrt", "rsqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p"), 1),
    **dict.fromkeys(
        ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"), 1
    ),
    **dict.fromkeys(("erf", "erfc", "lgamma"), 1),
    "fma": 3,
}


def _of_loop(loop: Reduce | Scan) -> tuple[Expr, ...]:
    return (loop.body,) if loop.where is None else (loop.where, loop.body)


# By type, since planning looks at each node many times. Other nodes have no children.
_CHILDREN: dict[type[Any], Callable[[Any], tuple[Expr, ...]]] = {
    Read: lambda read: (*read.subscripts, *(dividend for dividend, _ in read.exact)) if read.exact else read.subscripts,
    Sample: lambda sample: sample.coordinates,
    Op: lambda op: op.args,
    Select: lambda select: (select.condition, select.then, select.orelse),
    Cast: lambda cast: (cast.arg,),
    Reduce: _of_loop,
    Scan: _of_loop,
}


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct subexpressions, including subscripts and `where`, in evaluation order."""
    below = _CHILDREN.get(type(expr))
    return () if below is None else below(expr)


def conjuncts(where: Expr | None) -> tuple[Expr, ...]:
    """The conjuncts in test order; `a and b`, where b reads data, is `b if a else false`."""
    if where is None:
        return ()
    match where:
        case Op(name="and", args=parts):
            return tuple(condition for part in parts for condition in conjuncts(part))
        case Select(condition=first, then=second, orelse=Const(value=False)):
            return (*conjuncts(first), *conjuncts(second))
    return (where,)


def conjunction(conditions: Iterable[Expr]) -> Expr | None:
    """All of the conditions as one; None for none."""
    result: Expr | None = None
    for condition in conditions:
        result = condition if result is None else Op("and", (result, condition), BOOL)
    return result


def uses_indices(expr: Expr) -> bool:
    """Whether it depends on an index or param other than by the subscripts of reads."""
    return not isinstance(expr, Read) and (
        isinstance(expr, IndexValue | ParamValue) or any(map(uses_indices, children(expr)))
    )


def factors_of_product(body: Expr, dtype: DType) -> tuple[Read, ...]:
    """The two reads whose product, in the type `dtype`, the expression is; none if it isn't one."""
    while isinstance(body, Cast) and body.to == dtype:
        body = body.arg
    if not isinstance(body, Op) or body.name != "mul" or body.dtype != dtype:
        return ()
    factors = [arg.arg if isinstance(arg, Cast) else arg for arg in body.args]
    reads = tuple(factor for factor in factors if isinstance(factor, Read))
    return reads if len(reads) == len(factors) else ()


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and all its subexpressions, in preorder."""
    pending = [expr]
    while pending:
        node = pending.pop()
        yield node
        below = _CHILDREN.get(type(node))
        if below is not None:
            pending.extend(reversed(below(node)))


def outermost_reductions(expr: Expr) -> Iterator[Reduce]:
    """The reductions that are in no other one, nor in a scan, whose index their terms may have."""
    if isinstance(expr, Reduce):
        yield expr
    elif not isinstance(expr, Scan):
        for part in children(expr):
            yield from outermost_reductions(part)


def bound_indices(expr: Expr) -> Iterator[Index]:
    """The indices that reductions and scans bind; within a statement, those of equal names have equal extents."""
    for node in walk(expr):
        if isinstance(node, Reduce):
            yield from node.indices
        elif isinstance(node, Scan):
            yield node.inner


def free_indices(expr: Expr) -> frozenset[str]:
    """The names of the free indices of an expression."""
    names: set[str] = set()
    pending = [expr]
    while pending:
        match pending.pop():
            case IndexValue(name=name):
                names.add(name)
            case Reduce() as loop:
                names |= _free_in_loop(loop) - {index.name for index in loop.indices}
            case Scan() as loop:
                names |= (_free_in_loop(loop) - {loop.inner.name}) | {loop.outer}
            case node:
                pending.extend(children(node))
    return frozenset(names)


def _free_in_loop(loop: Reduce | Scan) -> frozenset[str]:
    return frozenset[str]().union(*map(free_indices, children(loop)))


def is_bool(expr: Expr) -> bool:
    """Whether the type of an expression is bool."""
    return expr.dtype == BOOL
