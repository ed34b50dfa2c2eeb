"""Findings about the arithmetic of a spec: float64 that no type asks for, and integers that wrap in their type."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from cugen.analysis.arithmetic.float64 import Unrequested, integer_operands, operand_types, unrequested
from cugen.analysis.arithmetic.wraps import Wrap, ranges, stored, wraps
from cugen.analysis.limits import codes
from cugen.analysis.limits.anchors import Anchor
from cugen.analysis.limits.findings import Finding, SpecLimits
from cugen.plan.intervals import fits, interval, unwrapped
from cugen.plan.symbols import Range
from cugen.spec.expressions import (
    NOWHERE,
    Cast,
    Const,
    Expr,
    IndexValue,
    Op,
    ParamValue,
    Reduce,
    ScalarValue,
    Scan,
    Select,
    Span,
    children,
    walk,
)
from cugen.spec.model import Spec, Statement
from cugen.spec.types import DTYPES, FLOAT64, INT32, INT64, UINT32, DType, Kind

_WIDE = DType("wide", Kind.INT, 256)  # no operation on the language's types wraps in it
_MODULAR = ("add", "sub", "mul", "neg")
_CAST_HEAD = re.compile(r"\bcast\s*[(\s]+$")  # before its operand, which may be in parentheses
_CAST_TAIL = re.compile(r"[)\s]*,\s*(?:dtype\s*=\s*)?(\w+)")
_CAST_LINES = 3  # that are searched before and after the operand
_MAX_NOTES = 3  # further operations of an expression that wrap
_MAX_INPUTS = 4  # shown


def arithmetic_findings(spec: Spec, file: str) -> tuple[Finding, ...]:
    """The findings of a spec's arithmetic: warnings, and errors beyond the limit `doubles`."""
    gate = _ArithmeticGate(spec, file)
    return (*gate.float64(), *gate.wraps())


class _ArithmeticGate(SpecLimits):
    def float64(self) -> Iterator[Finding]:
        limit = self.check.doubles
        expressions = [
            each
            for each in unrequested(self.spec)
            if not any(node.dtype == FLOAT64 and self._cast_type(node) == FLOAT64 for node in walk(each.expr))
        ]
        operations = sum(each.operations for each in expressions)
        if limit is not None and operations <= limit:
            return
        for each in expressions:
            yield self._float64(each, operations, limit)

    def _float64(self, each: Unrequested, operations: int, limit: int | None) -> Finding:
        text = self._text(each.expr)
        notes = [
            f"`{self._text(source)}` makes float64 of {' and '.join(map(str, operand_types(source)))}"
            for source in each.sources
        ]
        if limit is not None:
            notes.append(f"{operations} operations in float64; {self.limit_note('doubles', limit)}")
        operands = dict.fromkeys(
            self._text(_within(operand, source)) for source in each.sources for operand in integer_operands(source)
        )
        return self.finding(
            codes.UNREQUESTED_FLOAT64,
            f"`{text}` is computed in float64, for which no type of the spec asks",
            self._anchor(each.expr, each.statement),
            label="float64" if limit is None else f"at most {limit} operations in float64 allowed",
            notes=tuple(dict.fromkeys(notes)),
            help=f"write {_casts(operands, 'float32')}, or `cast` to float64 what is meant to be float64",
            severity="warning" if limit is None else "error",
            subject=f"float64 {text}",
        )

    def wraps(self) -> Iterator[Finding]:
        groups: dict[tuple[int, int], list[Wrap]] = {}
        for wrap in wraps(self.spec):
            groups.setdefault((id(wrap.statement), id(wrap.root)), []).append(wrap)
        for group in groups.values():
            meant = self._meant(group)
            if unmeant := [wrap for wrap in group if id(wrap.expr) not in meant]:
                yield self._wrap(unmeant)

    def _meant(self, group: Sequence[Wrap]) -> frozenset[int]:
        """The parts of an expression, by identity, that a `cast` around them gives the same value wrapped or not."""
        root, wrapping = group[0].root, frozenset(id(wrap.expr) for wrap in group)
        casts = (node for node in walk(root) if node.dtype == root.dtype and _is_modular(node, wrapping))
        kept = (
            node for node in casts if (to := self._cast_type(node)) and to.is_integer and to.bits <= root.dtype.bits
        )
        return frozenset(id(part) for node in kept for part in walk(node))

    def _cast_type(self, expr: Expr) -> DType | None:
        """The type of the `cast` whose operand an expression is; the tree has nothing of one to the type that it is."""
        span = _span(expr)
        if span is None or span.end_line > len(self.lines):
            return None
        first, last = span.line - 1, span.end_line - 1
        before = "\n".join((*self.lines[max(0, first - _CAST_LINES) : first], self.lines[first][: span.column - 1]))
        after = "\n".join((self.lines[last][span.end_column - 1 :], *self.lines[last + 1 : last + 1 + _CAST_LINES]))
        tail = _CAST_TAIL.match(after) if _CAST_HEAD.search(before) else None
        return DTYPES.get(tail[1]) if tail else None

    def _wrap(self, group: Sequence[Wrap]) -> Finding:
        first = group[0]
        also = [f"so does `{self._text(wrap.expr)}`, {self._result(wrap)}" for wrap in group[1 : 1 + _MAX_NOTES]]
        names = ranges(stored(first.statement), self.spec)
        text = self._text(first.expr.arg if isinstance(first.expr, Cast) else first.expr)
        return self.finding(
            codes.WRAPS,
            f"`{text}` wraps in {first.expr.dtype}{self._where(first)}: it is {self._result(first)}",
            self._anchor(first.expr, first.statement),
            label=f"{first.expr.dtype} holds {first.expr.dtype.lowest:,} to {first.expr.dtype.highest:,}",
            notes=(*also, *self._consequences(first.root, names)),
            help=self._cure(group, names),
            severity="warning",
            subject=f"wrap {self._text(first.root)}",
        )

    def _where(self, wrap: Wrap) -> str:
        is_store = wrap.expr is wrap.statement.value and isinstance(wrap.expr, Cast)
        return f" of `{wrap.statement.target}`" if is_store else ""

    def _result(self, wrap: Wrap) -> str:
        """`510 for a[5] = 255 and b[5] = 255`."""
        inputs = [f"{each.text} = {value}" for each, value in wrap.inputs]
        if not inputs or len(inputs) > _MAX_INPUTS:
            return f"{wrap.result:,}" + (" for some elements" if inputs else "")
        return f"{wrap.result:,} for {' and '.join(inputs)}"

    def _consequences(self, root: Expr, names: Mapping[str, Range]) -> Iterator[str]:
        """What the outer operations of the type then can't be."""
        for node in walk(root):
            if not isinstance(node, Op) or node.dtype != root.dtype:
                continue
            low, high = interval(node, names)
            if low == high:
                yield f"`{self._text(node)}` is always {low}"
                return
            if node.name in ("minimum", "maximum"):
                yield from self._useless_limit(node, names)

    def _useless_limit(self, node: Op, names: Mapping[str, Range]) -> Iterator[str]:
        for limit, operand in (node.args, node.args[::-1]):
            if isinstance(limit, Const) and not isinstance(operand, Const):
                low, high = interval(operand, names)
                if high <= limit.value if node.name == "minimum" else low >= limit.value:
                    yield f"`{self._text(node)}` never limits it: {node.dtype} has no values beyond {limit.value}"

    def _cure(self, group: Sequence[Wrap], names: Mapping[str, Range]) -> str:
        first = group[0]
        dtype = first.expr.dtype
        if isinstance(first.expr, Reduce | Scan):
            return "write `accumulate: int64`" if dtype.bits < INT64.bits else "sum in float64"
        if isinstance(first.expr, Cast):
            if self._where(first):
                return _limited(dtype)
            return f"`cast` the operand beside it to a type wider than {dtype}"
        wide = _smallest_type(group, names)
        if wide is None:
            return "compute in float64, or limit the operands"
        if first.statement.accumulate and first.expr is first.root:
            old = first.statement.text.partition("+=")[0].strip()
            return f"write `{old} = cast({old}, {wide}) + …` in place of `+=`, and {_limited(dtype)}"
        wrapping = frozenset(id(wrap.expr) for wrap in group)
        operands = dict.fromkeys(self._text(operand) for operand in _to_cast(first.root, first.root.dtype, wrapping))
        cure = f"write {_casts(operands, str(wide))}, so that it is computed in {wide}"
        is_stored = any(wrap.expr is wrap.statement.value for wrap in group)
        return f"{cure}, and {_limited(dtype)}" if is_stored else cure

    def _anchor(self, expr: Expr, statement: Statement) -> Anchor:
        return Anchor(_span(expr) or statement.span, "compute")

    def _text(self, expr: Expr) -> str:
        """An expression as written."""
        if isinstance(expr, IndexValue | ParamValue | ScalarValue):
            return expr.name
        if isinstance(expr, Const):
            return str(expr.value)
        span = _span(expr)
        if span is None or span.line != span.end_line or span.line > len(self.lines):
            return "the value"
        return self.lines[span.line - 1][span.column - 1 : span.end_column - 1]


def _within(operand: Expr, source: Expr) -> Expr:
    """What is written of an operand of a function's expansion."""
    while _span(operand) == _span(source) and children(operand):
        operand = children(operand)[-1]
        if isinstance(operand, Cast) and not operand.is_written:
            operand = operand.arg
    return operand


def _is_modular(expr: Expr, wrapping: frozenset[int]) -> bool:
    """Whether the operations around those that wrap give the same result modulo the type, wrapped or not."""
    if not any(id(node) in wrapping for node in walk(expr)):
        return True
    return isinstance(expr, Op) and expr.name in _MODULAR and all(_is_modular(arg, wrapping) for arg in expr.args)


def _span(expr: Expr) -> Span | None:
    if isinstance(expr, Cast) and not expr.is_written:
        return _span(expr.arg) or expr.span
    span = getattr(expr, "span", NOWHERE)
    return None if span == NOWHERE else span


def _casts(operands: Mapping[str, None], dtype: str) -> str:
    """`cast(a, int32)` and `cast(b, int32)`."""
    return " and ".join(f"`cast({operand}, {dtype})`" for operand in operands)


def _limited(dtype: DType) -> str:
    """What to write around a value that its array can't hold."""
    limits = f"`clamp(…, {dtype.lowest}, {dtype.highest})`"
    return f"limit it, {limits}, or write `cast(…, {dtype})` if it is meant to wrap"


def _to_cast(expr: Expr, dtype: DType, wrapping: frozenset[int]) -> Iterator[Expr]:
    """The operands with whose conversion all wrapping operations of the type are computed in the type that they are
    converted to."""
    parts = _parts(expr, dtype)
    inner = [operand for part in parts for operand in _to_cast(part, dtype, wrapping)]
    if inner or id(expr) not in wrapping:
        yield from inner
    else:
        yield next(part for part in parts if not isinstance(part, Const))


def _parts(expr: Expr, dtype: DType) -> tuple[Expr, ...]:
    """The operands of an operation of the type."""
    if expr.dtype != dtype:
        return ()
    if isinstance(expr, Op):
        return expr.args
    return (expr.then, expr.orelse) if isinstance(expr, Select) else ()


def _smallest_type(group: Sequence[Wrap], names: Mapping[str, Range]) -> DType | None:
    """The narrowest of int32, uint32 and int64 in which no operation of the group wraps."""
    results = [
        _unlimited(wrap, wide, names)
        for wrap in group
        if isinstance(wide := _widened(wrap.expr, wrap.expr.dtype), Op) and wide.name not in ("floordiv", "fma")
    ]
    return next((dtype for dtype in (INT32, UINT32, INT64) if all(fits(result, dtype) for result in results)), None)


def _unlimited(wrap: Wrap, wide: Op, names: Mapping[str, Range]) -> Range:
    """The range of an operation in a type that it doesn't wrap in; where intervals have none, as of powers, the largest
    result that was seen."""
    low, high = unwrapped(wide, names) if wide.name != "pow" else interval(wide, names)
    return (low, high) if fits((low, high), INT64) else (wrap.result, wrap.result)


def _widened(expr: Expr, dtype: DType) -> Expr:
    """The expression with its operations of a type in one that doesn't wrap."""
    if expr.dtype != dtype:
        return expr
    match expr:
        case Op(args=args):
            return replace(expr, args=tuple(_widened(arg, dtype) for arg in args), dtype=_WIDE)
        case Select(then=then, orelse=orelse):
            return replace(expr, then=_widened(then, dtype), orelse=_widened(orelse, dtype), dtype=_WIDE)
        case Const():
            return replace(expr, dtype=_WIDE)
    return expr
