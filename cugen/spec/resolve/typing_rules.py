"""Typing rules of operators and functions: NumPy's type promotion, with weakly typed literals, params and indices.

A value has two types. The *semantic* one (`Value.dtype`) takes part in promotion and may be a narrow float; the `dtype`
of its tree is the compute type: float16 operands are computed in float32 and rounded only by a store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cugen.spec.diagnostics import Reporter
from cugen.spec.expressions import Cast, Const, Expr, IndexValue, Op, Read, Reduce, Sample, Scan, Select, Span, walk
from cugen.spec.resolve.folding import fold
from cugen.spec.types import BOOL, FLOAT16, FLOAT32, FLOAT64, INT32, INT64, UINT64, DType, promote

MAX_SIZE = 20_000  # nodes of an expanded tree
MAX_DEPTH = 120  # of an expanded tree; later passes recurse
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}  # of exchanged operands
_BITWISE = {"bitand": "and", "bitor": "or", "bitxor": "ne", "shl": "", "shr": ""}
_ROUNDING_FUNCTIONS = ("floor", "ceil", "round", "trunc")  # identities on integers
_TYPE_PRESERVING = ("neg", "abs", "sign")


@dataclass(frozen=True, slots=True)
class Value:
    """A typed tree. A weak value (of literals, params and indices only) takes the type of the other operand; without
    one it is int64 or the default float. `size` and `depth` count nodes and bound later recursion."""

    expr: Expr
    dtype: DType
    weak: bool = False
    size: int = 1
    depth: int = 1


class Typing:
    """Applies operators to values. Methods return None after reporting a type error at the given span."""

    def __init__(self, default_float: DType, report: Reporter) -> None:
        self.default_float = default_float
        self._report = report

    def build(
        self, expr: Expr, dtype: DType, parts: Sequence[Value], span: Span, *, weak: bool = False
    ) -> Value | None:
        """A value with operands `parts`; None after reporting that it exceeds the size limits."""
        size = 1 + sum(part.size for part in parts)
        depth = 1 + max((part.depth for part in parts), default=0)
        if size > MAX_SIZE or depth > MAX_DEPTH:
            self._report.error(
                "CG1106",
                "the expression is too large after expansion of its functions",
                span,
                label="too large",
                help="split it into statements: an undeclared name on the left is a temporary",
            )
            return None
        return Value(expr, dtype, weak, size, depth)

    def number(self, value: int | float) -> Value:
        """A weak literal."""
        if isinstance(value, float):
            return Value(Const(value, self.default_float), self.default_float, weak=True)
        return Value(Const(value, INT64), INT64, weak=True)

    def promoted_type(self, values: Sequence[Value], *, arithmetic: bool = True) -> tuple[DType, bool]:
        """The promoted semantic type of operands, and whether it is weak. In arithmetic a bool is an int32, but with a
        float operand it takes the float's type, so that a mask times float32 isn't promoted to float64."""
        strong = [v.dtype for v in values if not v.weak]
        floating = any(v.weak and v.dtype.is_float for v in values)
        if not strong:
            return (self.default_float if floating else INT64), True
        if arithmetic or len(strong) < len(values):
            has_float = any(dtype.is_float for dtype in strong)
            strong = [INT32 if dtype == BOOL and not has_float else dtype for dtype in strong]
        result = strong[0]
        for dtype in strong[1:]:
            result = promote(result, dtype)
        return (FLOAT64 if floating and not result.is_float else result), False

    def convert(self, value: Value, to: DType, span: Span) -> Expr | None:
        """The tree of `value` converted to the compute type of `to`; None after reporting a literal out of range."""
        compute = to.compute
        expr = value.expr
        if value.weak and isinstance(expr, Const) and isinstance(expr.value, int):
            fits = abs(expr.value) < 2**127 if compute.is_float else compute.lowest <= expr.value <= compute.highest
            if fits and compute != BOOL:
                return Const(float(expr.value) if compute.is_float else expr.value, compute)
            if not fits:
                self._reject_literal(expr.value, compute, span)
                return None
        if expr.dtype == compute:
            return expr
        if value.weak and value.dtype.is_float and compute.is_float:
            return retyped(expr, compute)
        return Cast(expr, compute, span)

    def _reject_literal(self, value: int, compute: DType, span: Span) -> None:
        limits = "" if compute.is_float else f", whose range is {compute.lowest} to {compute.highest}"
        number = str(value) if abs(value) < 10**40 else "the number"
        self._report.error(
            "CG1210",
            f"{number} doesn't fit into {compute}{limits}",
            span,
            label=f"{compute} here",
            help="use a number of that range, or `cast` the other operand to a wider type",
        )

    def with_default_type(self, value: Value, span: Span) -> Value | None:
        """The value with a weak type made concrete: int64 or the default float."""
        expr = self.convert(value, value.dtype, span)
        return None if expr is None else replace(value, expr=expr)

    def arithmetic(self, name: str, a: Value, b: Value, span: Span) -> Value | None:
        """add sub mul div floordiv mod pow maximum minimum atan2, and the bitwise operators."""
        if name in _BITWISE:
            return self._bitwise(name, a, b, span)
        dtype, weak = self.promoted_type((a, b))
        if name == "pow" and self._negative_power(dtype, b, span):
            return None
        if name in ("div", "atan2") and not dtype.is_float:
            dtype = self.default_float if weak else FLOAT64
        return self._folded(name, a, b, weak, span) or self._operation(name, (a, b), dtype, weak, span)

    def _folded(self, name: str, a: Value, b: Value, weak: bool, span: Span) -> Value | None:
        """The folded value of two literals, or None."""
        folded = fold(name, a.expr, b.expr) if weak else None
        return None if folded is None else self.number(folded)

    def _operation(self, name: str, args: Sequence[Value], dtype: DType, weak: bool, span: Span) -> Value | None:
        trees = [self.convert(arg, dtype, span) for arg in args]
        operands = tuple(tree for tree in trees if tree is not None)
        if len(operands) < len(args):
            return None
        return self.build(Op(name, operands, dtype.compute, span), dtype, args, span, weak=weak)

    def _negative_power(self, dtype: DType, exponent: Value, span: Span) -> bool:
        known = exponent.expr.value if isinstance(exponent.expr, Const) else 0
        if dtype.is_float or known >= 0:
            return False
        self._report.error(
            "CG1208",
            "an integer can't be raised to a negative power",
            span,
            label=f"the exponent is {known}",
            help="make the base a float, such as `2.0 ** -1`",
        )
        return True

    def _bitwise(self, name: str, a: Value, b: Value, span: Span) -> Value | None:
        if a.dtype == b.dtype == BOOL and _BITWISE[name]:
            return self.build(Op(_BITWISE[name], (a.expr, b.expr), BOOL, span), BOOL, (a, b), span)
        dtype, weak = self.promoted_type((a, b))
        if dtype.is_float:
            power = "for a power write `x ** y`; " if name == "bitxor" else ""
            self._reject_float("bitwise operators take", a if a.dtype.is_float else b, span, power)
            return None
        return self._folded(name, a, b, weak, span) or self._operation(name, (a, b), dtype, weak, span)

    def _reject_float(self, what: str, value: Value, span: Span, hint: str = "") -> None:
        help = f"{hint}`cast` it to an integer type; for conditions use `and`, `or`, `not`"
        self._report.error("CG1208", f"{what} integers and bools", span, label=f"has {value.dtype}", help=help)

    def compare(self, name: str, a: Value, b: Value, span: Span) -> Value | None:
        """A comparison. A weak integer that may exceed the other operand's type is compared exactly: in int64, or where
        neither int64 nor uint64 holds both, with the ends of the other type's range."""
        dtype, _ = self.promoted_type((a, b), arithmetic=name not in ("eq", "ne"))
        if not dtype.is_integer or a.weak == b.weak:
            return self._compared(name, a, b, dtype, span)
        strong, weak = (b, a) if a.weak else (a, b)
        common = _type_of_both(name, dtype, weak.expr)
        if common is not None:
            return self._compared(name, a, b, common, span)
        seen_from_strong = _MIRRORED[name] if a.weak else name
        if isinstance(weak.expr, Const):
            return self._compared_with_end(seen_from_strong, strong, weak.expr.value, dtype, span)
        return self._compared_below_end(seen_from_strong, strong, weak, span)

    def _compared_with_end(
        self, name: str, strong: Value, known: int | float, dtype: DType, span: Span
    ) -> Value | None:
        """The comparison with a number beyond the type's range: as one with its highest or lowest number."""
        if known > dtype.highest:
            return self._compared(
                "le" if name in ("lt", "le", "ne") else "gt", strong, self.number(dtype.highest), dtype, span
            )
        return self._compared(
            "ge" if name in ("gt", "ge", "ne") else "lt", strong, self.number(dtype.lowest), dtype, span
        )

    def _compared_below_end(self, name: str, strong: Value, weak: Value, span: Span) -> Value | None:
        """The comparison of a uint64 with an integer that may be negative: in int64, beyond which all are greater."""
        bound, connective = ("le", "and") if name in ("lt", "le", "eq") else ("gt", "or")
        in_range = self._compared(bound, strong, self.number(INT64.highest), UINT64, span)
        comparison = self._compared(name, strong, weak, INT64, span)
        if in_range is None or comparison is None:
            return None
        test = Op(connective, (in_range.expr, comparison.expr), BOOL, span)
        return self.build(test, BOOL, (in_range, comparison), span)

    def _compared(self, name: str, a: Value, b: Value, dtype: DType, span: Span) -> Value | None:
        """The comparison of both operands in this type."""
        left, right = self.convert(a, dtype, span), self.convert(b, dtype, span)
        if left is None or right is None:
            return None
        return self.build(Op(name, (left, right), BOOL, span), BOOL, (a, b), span)

    def as_bool(self, value: Value, span: Span) -> Value | None:
        """The value converted to bool: itself, or `value != 0`."""
        return value if value.dtype == BOOL else self.compare("ne", value, self.number(0), span)

    def logic(self, name: str, values: Sequence[Value], span: Span) -> Value | None:
        """and, or, not. The operands of an Op are all evaluated, so an `and` or `or` whose right side reads arrays
        becomes a Select, which short-circuits as in Python."""
        args = [self.as_bool(value, span) for value in values]
        bools = [arg for arg in args if arg is not None]
        if len(bools) < len(values):
            return None
        if name == "not" or not reads(bools[1].expr):
            return self.build(Op(name, tuple(arg.expr for arg in bools), BOOL, span), BOOL, bools, span)
        a, b = bools
        if name == "and":
            return self.build(Select(a.expr, b.expr, Const(False, BOOL), BOOL, span), BOOL, bools, span)
        return self.build(Select(a.expr, Const(True, BOOL), b.expr, BOOL, span), BOOL, bools, span)

    def unary(self, name: str, value: Value, span: Span) -> Value | None:
        """plus neg abs sign invert, rounding, and the functions of one float."""
        if name == "invert":
            if value.dtype == BOOL:
                return self.logic("not", (value,), span)
            if value.dtype.is_float:
                self._reject_float("`~` takes", value, span)
                return None
        if name == "neg" and value.weak and isinstance(value.expr, Const):
            return self.number(-value.expr.value)
        dtype, weak = self.promoted_type((value,))
        if name == "plus" or (name in _ROUNDING_FUNCTIONS and not dtype.is_float):
            expr = self.convert(value, dtype, span)
            return None if expr is None else replace(value, expr=expr, dtype=dtype)
        if name not in _TYPE_PRESERVING and name != "invert" and not dtype.is_float:
            dtype = self.default_float if weak else _float_result_type(value.dtype)
        return self._operation(name, (value,), dtype, weak, span)

    def as_float(self, value: Value, span: Span) -> Value:
        """The value, of an integer array converted to the type in which a function such as `exp` takes it."""
        if value.dtype.is_float or value.weak:
            return value
        dtype = _float_result_type(value.dtype)
        return replace(value, expr=Cast(value.expr, dtype.compute, span), dtype=dtype)

    def fma(self, values: Sequence[Value], span: Span) -> Value | None:
        """A fused multiply-add of three operands."""
        dtype, weak = self.promoted_type(values)
        if not dtype.is_float:
            dtype = self.default_float if weak else FLOAT64
        return self._operation("fma", values, dtype, weak, span)

    def select(self, condition: Value, a: Value, b: Value, span: Span) -> Value | None:
        """`a` where the condition holds, else `b`."""
        test = self.as_bool(condition, span)
        dtype, weak = self.promoted_type((a, b), arithmetic=False)
        then, orelse = self.convert(a, dtype, span), self.convert(b, dtype, span)
        if test is None or then is None or orelse is None:
            return None
        return self.build(Select(test.expr, then, orelse, dtype.compute, span), dtype, (test, a, b), span, weak=weak)

    def cast(self, value: Value, to: DType, span: Span) -> Value | None:
        """The language's `cast`: rounds to `to` itself, not only to its compute type."""
        if to == BOOL:
            return self.as_bool(value, span)
        source: Expr | None = value.expr
        if value.weak and to.is_float:
            source = self.convert(value, to, span)
        elif value.weak:
            # A number that fits `to` may be beyond int64.
            is_large = isinstance(source, Const) and to == UINT64 and source.value > INT64.highest
            source = self.convert(value, to if is_large else value.dtype, span)
        if source is None:
            return None
        is_redundant = source.dtype == to or (value.weak and to.is_float and to.compute == to)
        cast = source if is_redundant else Cast(source, to, span, is_written=True)
        return self.build(cast, to, (value,), span)

    def convert_for_store(self, value: Value, to: DType, target: str, span: Span) -> Expr | None:
        """The tree converted for a store to element type `to`; narrowing float conversions are implicit."""
        if to == BOOL and value.dtype != BOOL:
            help = "compare it, such as `x != 0`"
        elif to.is_integer and value.dtype.is_float:
            help = f"write `cast(..., {to})`, which truncates, or round first: `cast(round(...), {to})`"
        else:
            return self.convert(value, to, span)
        self._report.error(
            "CG1209",
            f"a {value.dtype} can't be stored into `{target}`, whose type is {to}",
            span,
            label=f"this is {value.dtype}",
            help=help,
        )
        return None


def retyped(expr: Expr, to: DType) -> Expr:
    """A weak float tree converted to another float type; integer and bool subtrees are unchanged."""
    if not expr.dtype.is_float:
        return expr
    match expr:
        case Const():
            return replace(expr, dtype=to)
        case Cast():
            return replace(expr, to=to)
        case Op(args=args):
            return replace(expr, args=tuple(retyped(arg, to) for arg in args), dtype=to)
        case Select(then=then, orelse=orelse):
            return replace(expr, then=retyped(then, to), orelse=retyped(orelse, to), dtype=to)
        case Reduce(body=body) | Scan(body=body):
            return replace(expr, body=retyped(body, to), dtype=to)
        case _:
            return Cast(expr, to)


def _type_of_both(name: str, dtype: DType, weak: Expr) -> DType | None:
    """The type in which an integer of type `dtype` and a weak one are compared exactly, if there is one."""
    if isinstance(weak, Const):
        holding = (to for to in (dtype, INT64) if to.lowest <= weak.value <= to.highest)
        common = next(holding, None)
        return None if common == INT64 and dtype == UINT64 else common
    if dtype != UINT64:
        return INT64
    if not _is_nonnegative(weak):
        return None
    return INT64 if name in ("eq", "ne") else UINT64  # numbers beyond int64 wrap to negative ones


def _is_nonnegative(weak: Expr) -> bool:
    """Whether an integer of indices and literals is nonnegative as it is written."""
    match weak:
        case Const(value=value):
            return value >= 0
        case Op(name="add" | "mul" | "floordiv" | "mod" | "shl" | "shr" | "bitand" | "bitor", args=args):
            return all(map(_is_nonnegative, args))
        case _:
            return isinstance(weak, IndexValue)


def reads(expr: Expr) -> bool:
    """Whether the tree contains an array access."""
    return any(isinstance(part, Read | Sample) for part in walk(expr))


def _float_result_type(dtype: DType) -> DType:
    """The result type of a float function of an integer: as in NumPy, by the integer's width; bool as int32."""
    if dtype == BOOL or dtype.bits > 16:
        return FLOAT64
    return FLOAT16 if dtype.bits == 8 else FLOAT32
