"""Bounds checks: proves that every access is in bounds, or reports a counterexample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cugen.spec.diagnostics import Reporter
from cugen.spec.expressions import (
    Boundary,
    Expr,
    Index,
    IndexValue,
    Op,
    ParamValue,
    Read,
    Reduce,
    Sample,
    Scan,
    Select,
    Span,
    children,
    conjuncts,
    free_indices,
    walk,
)
from cugen.spec.model import Array, Param, Requirement, Statement
from cugen.spec.prove.affine import AffineForm, Product, Variable, affine_form, atom_form, floor_quotient, text_of
from cugen.spec.prove.coordinates import Intervals
from cugen.spec.prove.counterexample import Point, find_outside
from cugen.spec.prove.guards import Case, alternatives, conjunction
from cugen.spec.prove.nonnegative import is_provably_nonnegative
from cugen.spec.prove.requirements import assumed
from cugen.spec.rewriting import rebuild
from cugen.spec.types import BOOL

_EXAMPLE_MAXIMUM = 65536  # of the range that a help text shows


Guards = tuple[tuple[Expr, bool], ...]  # conditions, each with the value that it has


@dataclass(frozen=True, slots=True)
class Context:
    """The context of an expression: the params, the indices in scope, the guarding conditions (each with the value that
    it has there), and the facts that follow from all, as a disjunction of cases."""

    params: Mapping[str, Param]
    indices: tuple[Index, ...] = ()
    guards: Guards = ()
    cases: tuple[Case, ...] = ((),)


@dataclass(frozen=True, slots=True)
class _Tested:
    """What conditions test: elements of `arrays`, which they may keep from being subscripts. What they `read` by
    themselves is in bounds."""

    arrays: frozenset[str] = frozenset()
    read: frozenset[Expr] = frozenset()


class BoundsChecker:
    """The bounds checker of one spec's statements."""

    def __init__(
        self,
        params: Mapping[str, Param],
        arrays: Mapping[str, Array],
        report: Reporter,
        require: Sequence[Requirement] = (),
    ) -> None:
        self._params = params
        self._assumptions = assumed(require, params)
        self._required = tuple((requirement.condition, True) for requirement in require)
        self._arrays = arrays
        self._report = report
        self._reported: dict[Span, None] = {}
        self.written_outside: dict[str, None] = {}  # targets with an out-of-bounds write

    def checked(self, statement: Statement) -> Statement:
        """The statement without `boundary` on reads that are proved in bounds; reports accesses that aren't."""
        params = _positive_extents(statement.indices, self._assumptions.params)
        context = self._binding(Context(params, cases=self._assumptions.cases), statement.indices)
        self._check_target(statement, context)
        return replace(statement, value=self._visit(statement.value, context))

    def with_boundaries(self, statement: Statement) -> Statement:
        """The statement with `boundary: zero` on reads that only a condition keeps in bounds. Conditions on a loop's
        own indices bound the loop. A condition that reads what is a subscript, as
        `where(t[i] >= 0, sum(x[t[i], k], k), 0)`, may keep that in bounds."""
        params = _positive_extents(statement.indices, self._assumptions.params)
        context = self._binding(Context(params, cases=self._assumptions.cases), statement.indices)
        return replace(statement, value=self._in_loops(statement.value, context, (), _Tested()))

    def stays_in_bounds(self, read: Read, indices: tuple[Index, ...]) -> bool:
        """Whether a read is in bounds for all values of the indices, whatever guards it."""
        if any(map(_has_read, read.subscripts)) or any(_has_read(dividend) for dividend, _ in read.exact):
            return False
        pairs = list(zip(read.subscripts, self._arrays[read.array].shape, strict=True))
        context = Context(self._assumptions.params, cases=self._assumptions.cases)
        return self._is_proved(pairs, list(read.exact), self._binding(context, indices))

    def _binding(self, context: Context, indices: tuple[Index, ...]) -> Context:
        facts: list[AffineForm] = []
        for index in indices:
            variable = atom_form(Variable(index.name))
            facts += [variable, affine_form(index.extent, context.params) - 1 - variable]
        cases = tuple((*case, *facts) for case in context.cases)
        return replace(context, indices=context.indices + indices, cases=cases)

    def _assuming(self, context: Context, condition: Expr, holds: bool) -> Context:
        more = alternatives(condition, holds, context.params)
        cases = tuple(conjunction(list(context.cases), more))
        return replace(context, guards=(*context.guards, (condition, holds)), cases=cases)

    def _contexts(self, expr: Expr, context: Context) -> tuple[Context, ...]:
        """The context of each of the expression's children."""
        match expr:
            case Select(condition=condition):
                return (context, *(self._assuming(context, condition, holds) for holds in (True, False)))
            case Reduce(indices=indices):
                inside = self._binding(context, indices)
            case Scan(inner=inner):
                inside = self._assuming(self._binding(context, (inner,)), _order(expr), True)
            case _:
                return (context,) * len(children(expr))
        return (inside,) if expr.where is None else (inside, self._assuming(inside, expr.where, True))

    def _visit(self, expr: Expr, context: Context) -> Expr:
        contexts = iter(self._contexts(expr, context))
        visited = rebuild(expr, lambda child: self._visit(child, next(contexts)))
        if isinstance(visited, Sample):
            self._check_sample(visited, context)
        return self._read(visited, context) if isinstance(visited, Read) else visited

    def _in_loops(self, expr: Expr, context: Context, bounds: Guards, tested: _Tested) -> Expr:
        """The expression with these boundaries. Of all conditions the context has `bounds`, of the loops, alone; the
        others have `tested` elements."""
        match expr:
            case Reduce() | Scan():
                return self._in_loop(expr, context, bounds, tested)
            case Select(condition=condition):
                branch = replace(tested, arrays=tested.arrays | _arrays(condition), read=tested.read | _read(condition))
                chosen = iter((tested, branch, branch))
                return rebuild(expr, lambda child: self._in_loops(child, context, bounds, next(chosen)))
        made = rebuild(expr, lambda child: self._in_loops(child, context, bounds, tested))
        if not isinstance(made, Read) or made.boundary is not None:
            return made
        is_tested = expr not in tested.read and any(_arrays(sub) & tested.arrays for sub in made.subscripts)
        is_inside = not is_tested and self._is_proved(*self._goals(made), context)
        return made if is_inside else replace(made, boundary=Boundary("zero"))

    def _in_loop(self, loop: Reduce | Scan, context: Context, bounds: Guards, tested: _Tested) -> Expr:
        indices = loop.indices if isinstance(loop, Reduce) else (loop.inner,)
        names = {index.name for index in indices}
        parts = conjuncts(loop.where)
        inner_bounds = (*bounds, *((part, True) for part in parts if free_indices(part) & names))
        if isinstance(loop, Scan):
            inner_bounds = (*inner_bounds, (_order(loop), True))
        others = frozenset[str]().union(*(_arrays(part) for part in parts if not free_indices(part) & names))
        unguarded = replace(context, indices=(), guards=(), cases=self._assumptions.cases)
        unguarded = self._binding(unguarded, (*context.indices, *indices))
        where = (self._with_guards(unguarded, bounds), bounds, tested)
        of_body = replace(tested, arrays=tested.arrays | others)
        body = (self._with_guards(unguarded, inner_bounds), inner_bounds, of_body)
        inside = iter((where, body) if loop.where is not None else (body,))
        return rebuild(loop, lambda child: self._in_loops(child, *next(inside)))

    def _with_guards(self, context: Context, guards: Guards) -> Context:
        for condition, holds in guards:
            context = self._assuming(context, condition, holds)
        return context

    def _goals(self, read: Read) -> tuple[list[tuple[Expr, Expr]], list[tuple[Expr, int]]]:
        """What is to be proved of a read: subscripts with their extents, and exact divisions."""
        shape = self._arrays[read.array].shape
        known = [(s, e) for s, e in zip(read.subscripts, shape, strict=True) if not _has_read(s)]
        return known, [(dividend, divisor) for dividend, divisor in read.exact if not _has_read(dividend)]

    def _read(self, read: Read, context: Context) -> Read:
        shape = self._arrays[read.array].shape
        gathers = any(isinstance(part, Read) for subscript in read.subscripts for part in walk(subscript))
        known, exact = self._goals(read)
        if self._is_proved(known, exact, context):
            return read if gathers else replace(read, boundary=None)
        if read.boundary is not None:
            return read
        subscripts = [(None if _has_read(s) else s, e) for s, e in zip(read.subscripts, shape, strict=True)]
        guards = (*self._required, *context.guards)
        point = find_outside(subscripts, exact, context.indices, guards, self._params)
        if point is not None and not point.is_sure and self._is_enumerated(known, exact, context):
            return read if gathers else replace(read, boundary=None)
        if point is not None and read.span not in self._reported:
            self._reported[read.span] = None
            self._report_read(read, point)
        return read

    def _is_enumerated(self, known: list[tuple[Expr, Expr]], exact: list[tuple[Expr, int]], context: Context) -> bool:
        """Whether all points of the indices of those goals that aren't proved are in bounds, as bits of one index that
        are reversed are, whatever the other dimensions."""
        unproved = [pair for pair in known if not self._is_proved([pair], [], context)]
        divisions = [division for division in exact if not self._is_proved([], [division], context)]
        guards = (*self._required, *context.guards)
        trees = [*(s for s, _ in unproved), *(dividend for dividend, _ in divisions), *(guard for guard, _ in guards)]
        used = frozenset[str]().union(*map(free_indices, trees))
        indices = tuple(index for index in context.indices if index.name in used)
        return find_outside(unproved, divisions, indices, guards, self._params) is None

    def _check_sample(self, sample: Sample, context: Context) -> None:
        if sample.boundary is not None or sample.span in self._reported:
            return
        intervals = Intervals(context.params, context.indices)
        shape = self._arrays[sample.array].shape
        if all(map(intervals.is_between, sample.coordinates, shape)):
            return
        self._reported[sample.span] = None
        limits = " and ".join(f"0 .. {self._last(extent)}" for extent in shape)
        self._report.error(
            "CG1304",
            f"`{sample.array}` may be read outside the array (unproved)",
            sample.span,
            label=f"not proved to be in {limits}",
            help=f"give `{sample.array}` a `boundary`, such as `boundary: clamp`",
        )

    def _last(self, extent: Expr) -> str:
        form = affine_form(extent, self._params) - 1
        return str(form.constant) if form.is_constant else f"{text_of(extent)} - 1"

    def _is_proved(self, pairs: list[tuple[Expr, Expr]], exact: list[tuple[Expr, int]], context: Context) -> bool:
        goals: list[AffineForm] = []
        for subscript, extent in pairs:
            form = affine_form(subscript, context.params)
            goals += [form, affine_form(extent, context.params) - 1 - form]
        for dividend, divisor in exact:
            goals.append(_negative_remainder(affine_form(dividend, context.params), divisor))
        return all(is_provably_nonnegative(goal, case, context.params) for case in context.cases for goal in goals)

    def _report_read(self, read: Read, point: Point) -> None:
        text = text_of(read)
        if point.is_sure:
            message = f"`{text}` reads outside the array"
            label = f"{point.where} reads {read.array}[{point.element}], outside {point.limits}"
        else:
            message = f"`{text}` may read outside the array (unproved)"
            label = "unproved"
        notes = (
            ()
            if point.is_sure or not point.where
            else (f"for instance, {point.where} would read {read.array}[{point.element}], outside {point.limits}",)
        )
        self._report.error(
            "CG1304",
            message,
            read.span,
            label=label,
            notes=notes,
            help=f"{self._boundary_help(read)}, or guard the read: `where(inside({text}), {text}, 0)`"
            + self._range_help(read),
        )

    def _boundary_help(self, read: Read) -> str:
        array = self._arrays[read.array]
        if not array.is_temporary:
            return f"give `{array.name}` a `boundary`, such as `boundary: zero`"
        shape = ", ".join(map(text_of, array.shape))
        entry = f"{array.name}: {{shape: [{shape}], dtype: {array.dtype.name}, memory: scratch, boundary: zero}}"
        return f"declare `{array.name}` under `arrays` with a `boundary`: `{entry}`"

    def _range_help(self, read: Read) -> str:
        """The help for a quotient or a remainder of a param that may be 0."""
        divisors = [
            node.args[1].name
            for subscript in read.subscripts
            for node in walk(subscript)
            if isinstance(node, Op) and node.name in ("mod", "floordiv") and isinstance(node.args[1], ParamValue)
        ]
        params = self._assumptions.params
        empty = [name for name in divisors if params[name].value is None and params[name].minimum < 1]
        return f"; or let `{empty[0]}` start at 1: `{{range: [1, {_EXAMPLE_MAXIMUM}]}}`" if empty else ""

    def _check_target(self, statement: Statement, context: Context) -> None:
        array = self._arrays[statement.target]
        pairs = list(zip(statement.subscripts, array.shape, strict=True))
        if self._is_proved(pairs, [], context):
            return
        point = find_outside([(s, e) for s, e in pairs], [], context.indices, self._required, self._params)
        if point is None:
            return
        self.written_outside[statement.target] = None
        certain = f"{point.where or 'it'} writes {statement.target}[{point.element}], outside {point.limits}"
        self._report.error(
            "CG1305",
            f"`{statement.target}` is written outside its shape"
            if point.is_sure
            else f"`{statement.target}` may be written outside its shape (unproved)",
            statement.span,
            label=certain if point.is_sure else "unproved",
            help="change the shape, or give the index a shorter extent under `indices`",
        )


def _positive_extents(indices: tuple[Index, ...], params: Mapping[str, Param]) -> Mapping[str, Param]:
    """The params of a launch, which has no empty grid: an output's extent that is a multiple of a dynamic param says
    that this is at least 1, as does a product of such params."""
    positive = dict(params)
    for index in indices:
        extent = affine_form(index.extent, params)
        if len(extent.terms) == 1 and extent.constant <= 0:
            ((atom, coefficient),) = extent.terms
            factors = atom.factors if isinstance(atom, Product) else (atom,)
            for factor in factors if coefficient > 0 else ():
                if isinstance(factor, Variable) and factor.name in params:
                    param = positive[factor.name]
                    positive[factor.name] = replace(param, minimum=max(param.minimum, 1))
    return positive


def _order(scan: Scan) -> Expr:
    """The condition of the elements that a scan has reached."""
    pair = (IndexValue(scan.inner.name), IndexValue(scan.outer))
    lower, upper = reversed(pair) if scan.reverse else pair
    return Op("lt" if scan.exclusive else "le", (lower, upper), BOOL)


def _arrays(expr: Expr) -> frozenset[str]:
    return frozenset(node.array for node in walk(expr) if isinstance(node, Read))


def _read(condition: Expr) -> frozenset[Expr]:
    """The reads of a condition for each of its values: not those in its own branches, or under conditions of loops."""
    match condition:
        case Select(condition=first):
            return _read(first)
        case Reduce(where=where) | Scan(where=where) if where is not None:
            return frozenset()
    itself = frozenset((condition,)) if isinstance(condition, Read) else frozenset[Expr]()
    return itself.union(*map(_read, children(condition)))


def _has_read(expr: Expr) -> bool:
    return any(isinstance(part, Read) for part in walk(expr))


def _negative_remainder(dividend: AffineForm, divisor: int) -> AffineForm:
    """`-(dividend % divisor)`, which is nonnegative only where the division is exact."""
    return floor_quotient(dividend, AffineForm((), divisor)).scaled(divisor) - dividend
