"""Integer operations of a spec that wrap for some input, each with such an input.

Interval arithmetic first tells which operations can't wrap. The others are evaluated without the limits of their types,
for many values of the elements that they depend on: what is reported was seen to wrap. Nothing is said of operations on
what isn't known, such as elements of 32 bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from cugen.analysis.arithmetic.exact import COMPARISONS, Numbers, exact, is_outside, wrapped
from cugen.analysis.arithmetic.inputs import (
    Input,
    Point,
    Sources,
    TooLarge,
    cases,
    definition_point,
    inputs_of,
    with_indices,
)
from cugen.plan.intervals import fits, interval, unwrapped
from cugen.plan.symbols import Range
from cugen.spec.expressions import (
    Cast,
    Const,
    Expr,
    Index,
    IndexValue,
    Op,
    ParamValue,
    Read,
    Reduce,
    ScalarValue,
    Scan,
    Select,
    bound_indices,
    children,
    walk,
)
from cugen.spec.model import Spec, Statement
from cugen.spec.types import BOOL, INT64, DType

_POINTS = (1, 0, 2)  # the middle of all indices, the first and the last
_SAFE = (
    *("mod", "bitand", "bitor", "bitxor", "invert", "sign", "minimum", "maximum", "shr"),
    *("floor", "ceil", "round", "trunc", "not", "and", "or", *COMPARISONS),
)  # never exceed the range of their operands' type


@dataclass(frozen=True)
class Wrap:
    """An operation, a conversion that no `cast` asks for, or a sum that wraps: `result` is what it would be without
    limits of its type, for these `inputs`. `root` is the outermost operation of its type around it."""

    statement: Statement
    expr: Op | Cast | Reduce | Scan
    root: Expr
    result: int
    inputs: tuple[tuple[Input, int], ...]


def wraps(spec: Spec) -> tuple[Wrap, ...]:
    """The operations of all statements that wrap for some input, in order."""
    results: list[Wrap] = []
    for number, statement in enumerate(spec.statements):
        value = stored(statement)
        results += _Search(statement, value, Sources.of(spec, number), ranges(value, spec)).run()
    return tuple(results)


def stored(statement: Statement) -> Expr:
    """The value that a statement stores, with the old one of `+=`."""
    if not statement.accumulate:
        return statement.value
    dtype = statement.value.dtype
    old = Read(statement.target, statement.subscripts, dtype)
    return Op("add", (old, statement.value), dtype, statement.span)


def ranges(value: Expr, spec: Spec) -> dict[str, Range]:
    """The ranges of params, and of indices that a value binds or has from its statement."""
    names: dict[str, Range] = {}
    for param in spec.params:
        names[param.name] = (param.minimum, param.maximum) if param.value is None else (param.value, param.value)
    indices = [index for statement in spec.statements for index in statement.indices]
    for index in (*indices, *bound_indices(value)):
        highest = max(0, interval(index.extent, names)[1] - 1)
        names[index.name] = (0, max(highest, names.get(index.name, (0, 0))[1]))
    return names


def _may_exceed(node: Expr, names: Mapping[str, Range]) -> bool:
    """Whether an operation or conversion may exceed its type."""
    match node:
        case Op(name=name, dtype=dtype) if dtype.is_integer and name not in _SAFE:
            return not _has_range(node) or not fits(unwrapped(node, names), dtype)
        case Cast(arg=arg, to=to, is_written=False) if to.is_integer and not arg.dtype.is_float:
            return not fits(interval(arg, names), to)
    return False


def _has_range(op: Op) -> bool:
    """Whether intervals know the operator: shifts by constants only."""
    if op.name == "shl":
        return isinstance(op.args[1], Const) and 0 <= op.args[1].value < op.dtype.bits
    return op.name in ("add", "sub", "mul", "neg", "abs")


@dataclass(frozen=True)
class _Total:
    """A sum of integers, and what may wrap: the sum, or its conversion to the type that stores it."""

    sum: Reduce | Scan
    expr: Reduce | Scan | Cast
    dtype: DType


def _sums(value: Expr, names: Mapping[str, Range]) -> Iterator[_Total]:
    """The sums of integers that may exceed their type, or that of their array."""
    for node in walk(value):
        match node:
            case Reduce() | Scan():
                total = _Total(node, node, node.dtype)
            case Cast(arg=Reduce() | Scan() as arg, to=to, is_written=False):
                total = _Total(arg, node, to)
            case _:
                continue
        if total.sum.kind == "sum" and total.sum.dtype.is_integer and total.dtype.is_integer:
            terms = prod(interval(index.extent, names)[1] for index in bound_indices_of(total.sum))
            low, high = interval(total.sum.body, names)
            if not fits((min(0, terms * low), max(0, terms * high)), total.dtype):
                yield total


def bound_indices_of(node: Reduce | Scan) -> tuple[Index, ...]:
    return node.indices if isinstance(node, Reduce) else (node.inner,)


@dataclass
class _Search:
    statement: Statement
    value: Expr
    sources: Sources
    names: Mapping[str, Range]
    results: dict[int, Wrap] = field(default_factory=dict)  # by the identity of the expression

    def run(self) -> list[Wrap]:
        order = {id(node): position for position, node in enumerate(_operands_first(self.value))}
        try:
            if any(_may_exceed(node, self.names) for node in walk(self.value)):
                for where in _POINTS:
                    self._try_operations(where)
            for total in _sums(self.value, self.names):
                self._try_sum(total)
        except TooLarge:
            return []
        return sorted(self.results.values(), key=lambda wrap: order[id(wrap.expr)])

    def _try_operations(self, where: int) -> None:
        point = self.sources.point(self.statement.indices, where)
        if point is None:
            return
        tried = _Evaluation(self.sources, cases(*inputs_of(self.value, point, self.sources, where)), where)
        tried.of(self.value, point, tried.everywhere, self.value)
        inner = with_indices(point, tuple(bound_indices(self.value)), where)
        for expr, root, case, result in tried.wraps:
            inputs, _ = inputs_of(expr, inner or point, self.sources, where)
            self.results.setdefault(id(expr), Wrap(self.statement, expr, root, result, tried.case(case, inputs)))

    def _try_sum(self, total: _Total) -> None:
        """A sum of equal terms: all elements of an array have one value."""
        node = total.sum
        indices = bound_indices_of(node)
        point = self.sources.point((*self.statement.indices, *indices), 0)
        is_whole = node.where is None and not (isinstance(node, Scan) and node.exclusive)
        if point is None or not is_whole:
            return
        terms = prod(point.number(index.extent) or 0 for index in indices)
        uniform = replace(point, uniform=True)
        tried = _Evaluation(self.sources, cases(*inputs_of(node.body, uniform, self.sources, 0)), 0)
        term = tried.of(node.body, uniform, tried.everywhere, node.body)
        if term is None:
            return
        totals = terms * term.astype(object)
        outside = np.flatnonzero(is_outside(totals, total.dtype))
        if outside.size:
            case = int(outside[np.argmax(np.abs(term[outside]))])
            shown = tried.case(case, tuple(tried.values))
            self.results[id(total.expr)] = Wrap(self.statement, total.expr, total.expr, int(totals[case]), shown)


class _Evaluation:
    """The values of expressions for all cases at once; None where they aren't known."""

    def __init__(self, sources: Sources, values: Mapping[Input, Numbers], where: int) -> None:
        self.sources, self.values, self.where = sources, values, where
        self.count = len(next(iter(values.values()))) if values else 1
        self.everywhere = np.ones(self.count, dtype=np.bool_)
        self.wraps: list[tuple[Op | Cast | Reduce | Scan, Expr, int, int]] = []  # expression, root, case, result

    def case(self, case: int, inputs: tuple[Input, ...]) -> tuple[tuple[Input, int], ...]:
        """The values of inputs in a case."""
        return tuple((each, int(self.values[each][case])) for each in inputs if each in self.values)

    def of(self, node: Expr, point: Point, runs: Numbers | None, root: Expr) -> Numbers | None:
        """The value of an expression. `runs`: the cases in which it is evaluated; None if unknown."""
        match node:
            case Const(value=number, dtype=dtype):
                return None if dtype.is_float else self._source(int(number))
            case IndexValue() | ParamValue():
                is_any = point.uniform and isinstance(node, IndexValue)
                return None if is_any else self._source(point.number(node))
            case ScalarValue():
                return self._source(self.sources.of_scalar(node))
            case Read():
                return self._read(node, point)
            case Op():
                return self._operation(node, point, runs, root)
            case Select(condition=condition, then=then, orelse=orelse):
                test = self.of(condition, point, runs, condition)
                yes = self.of(then, point, _both(runs, test), root)
                no = self.of(orelse, point, _both(runs, None if test is None else ~test.astype(np.bool_)), root)
                return None if test is None or yes is None or no is None else np.where(test, yes, no)
            case Cast(arg=arg, to=to):
                value = self.of(arg, point, runs, arg)
                if value is None or not to.is_integer or arg.dtype.is_float:
                    return None
                return self._limited(node, value, runs, node, records=not node.is_written)
            case Reduce() | Scan():
                inner = with_indices(point, bound_indices_of(node), self.where)
                if inner is not None:
                    test = self._test(node, inner, runs)
                    self.of(node.body, inner, test, node.body)
                return None
        for child in children(node):
            self.of(child, point, runs, child)
        return None

    def _test(self, node: Reduce | Scan, inner: Point, runs: Numbers | None) -> Numbers | None:
        """The cases in which the term at the inner indices is evaluated, by some element of a scan."""
        if isinstance(node, Scan) and node.exclusive:
            return None
        return runs if node.where is None else _both(runs, self.of(node.where, inner, runs, node.where))

    def _source(self, source: Input | int | None) -> Numbers | None:
        if isinstance(source, Input):
            return self.values.get(source)
        if source is None or not INT64.lowest <= source <= INT64.highest:
            return None
        return np.full(self.count, source, dtype=np.int64)

    def _read(self, read: Read, point: Point) -> Numbers | None:
        source = self.sources.of_read(read, point)
        if not isinstance(source, Statement):
            return self._source(source)
        there = definition_point(source, read, point)
        if there is None:
            return None
        known = len(self.wraps)
        value = self.of(source.value, there, None, source.value)
        del self.wraps[known:]  # of the definition's own statement
        return value

    def _operation(self, op: Op, point: Point, runs: Numbers | None, root: Expr) -> Numbers | None:
        is_of_root = root.dtype == op.dtype and op.dtype.is_integer
        outer = root if is_of_root else op
        args: list[Numbers | None] = []
        for position, arg in enumerate(op.args):
            reached = runs
            if op.name in ("and", "or") and position:
                first = args[0]
                test = None if first is None else first.astype(np.bool_)
                reached = _both(runs, None if test is None else test if op.name == "and" else ~test)
            args.append(self.of(arg, point, reached, outer if arg.dtype == op.dtype else arg))
        known = [arg for arg in args if arg is not None]
        if len(known) < len(args) or any(arg.dtype.is_float for arg in op.args):
            return None
        if op.dtype == BOOL:
            return _logic(op.name, known)
        value = exact(op.name, known, op.dtype)
        return None if value is None else self._limited(op, value, runs, outer, records=True)

    def _limited(
        self, node: Op | Cast, value: Numbers, runs: Numbers | None, root: Expr, *, records: bool
    ) -> Numbers | None:
        """The value in its type; notes where that differs."""
        if records and runs is not None:
            seen = np.flatnonzero(is_outside(value, node.dtype) & runs)
            if seen.size:
                case = int(seen[np.argmax(np.abs(value[seen]))])
                self.wraps.append((node, root, case, int(value[case])))
        return wrapped(value, node.dtype)


def _operands_first(expr: Expr) -> Iterator[Expr]:
    for child in children(expr):
        yield from _operands_first(child)
    yield expr


def _both(runs: Numbers | None, test: Numbers | None) -> Numbers | None:
    return None if runs is None or test is None else runs & test.astype(np.bool_)


def _logic(name: str, args: list[Numbers]) -> Numbers | None:
    if name in COMPARISONS:
        result: Numbers = COMPARISONS[name](*args)
        return result
    truths = [arg.astype(np.bool_) for arg in args]
    match name, truths:
        case (("and" | "bitand" | "minimum" | "mul"), [a, b]):
            return a & b
        case (("or" | "bitor" | "maximum"), [a, b]):
            return a | b
        case (("ne" | "bitxor"), [a, b]):
            return a ^ b
        case (("not" | "invert"), [a]):
            return ~a
    return None
