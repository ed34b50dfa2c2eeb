"""Interpreter of typed expression trees, vectorised with NumPy over all points of a scope."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from cugen.reference.contents import Contents, OutsideError, Region, apply_boundary
from cugen.reference.filtering import filtered
from cugen.reference.operators import apply_operator, convert, select
from cugen.reference.scope import Scope
from cugen.reference.storage import Values, format_of, store, working_dtype
from cugen.reference.sums.contraction import conjuncts, contract, factors_of, multiply, split
from cugen.reference.sums.outer_factors import factored, without_scales
from cugen.reference.sums.reductions import (
    Sum,
    argument_of_extremum,
    identity,
    mask_terms,
    reduce_extremum,
    reduce_product,
    reduce_sum,
    scan,
)
from cugen.reference.sums.tensor_cores import ConvertedFactors, converted_factors, truncation
from cugen.reference.sums.winograd import with_winograd
from cugen.reference.tracked import Tracked, deviation, integers_are_exact
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
    Sample,
    ScalarValue,
    Scan,
    Select,
    children,
    free_indices,
)
from cugen.spec.floats.signs import is_nonnegative
from cugen.spec.model import Precision
from cugen.spec.prove.integers import evaluate as integer
from cugen.spec.separate_terms import Term, separate_terms
from cugen.spec.types import INT64, DType
from cugen.spec.winograd.recognition import Convolution

MAX_ARRAY_ELEMENTS = 1 << 22  # of one intermediate array: 32 MiB of doubles; about a dozen may be live
MAX_TERMS = 1 << 18  # of a reduction that are evaluated together: passes over 2 MiB of doubles stay in a CPU's cache


def constant(value: int | float | bool, dtype: DType) -> Tracked:
    """A number, converted to a compute type: floats round, integers wrap."""
    if dtype.is_float:
        number = store(np.asarray(float(value)), dtype).astype(np.float64)
        is_integer = bool(np.isfinite(number)) and float(number).is_integer()
        return Tracked(number, None, is_integer and integers_are_exact(number, dtype))
    if dtype.is_integer:
        wrapped = (int(value) - dtype.lowest) % (1 << dtype.bits) + dtype.lowest
        return Tracked(np.asarray(wrapped, dtype=working_dtype(dtype)))
    return Tracked(np.asarray(bool(value)))


@dataclass(frozen=True, slots=True)
class Interpreter:
    """Evaluates one statement's expressions. `contents` maps a name to the array's version before the statement;
    `text` is quoted in errors. `precision` is that of the spec; `factors` are those whose operands may be converted;
    `has_wgmma`: the target multiplies float8 with fewer bits. `converted`: of what types temporaries are. `winograd`:
    the convolutions that may be computed by Winograd's algorithm, by their sums."""

    params: Mapping[str, int]
    scalars: Mapping[str, Tracked]
    contents: Callable[[str], Contents]
    text: str = ""
    precision: Precision = field(default=Precision())
    factors: ConvertedFactors = field(default=ConvertedFactors())
    has_wgmma: bool = False
    converted: Mapping[str, DType] = field(default_factory=dict)
    winograd: Mapping[Expr, Convolution] = field(default_factory=dict)

    def evaluate(self, expr: Expr, scope: Scope) -> Tracked:
        """The value of `expr` at all points of the scope; its array broadcasts to the scope's axes."""
        return self.factors.converted(expr, self._value(expr, scope))

    def _value(self, expr: Expr, scope: Scope) -> Tracked:
        match expr:
            case Const(value=value, dtype=dtype):
                return constant(value, dtype)
            case IndexValue(name=name):
                return Tracked(scope.values[name])
            case ParamValue(name=name):
                return Tracked(np.asarray(self.params[name], dtype=np.int64))
            case ScalarValue(name=name):
                return self.scalars[name]
            case Read():
                return self._read(expr, scope)
            case Sample(array=array, coordinates=coordinates, boundary=boundary):
                points = [self.evaluate(coordinate, scope) for coordinate in coordinates]
                return filtered(self.contents(array), points, boundary)
            case Op(name="and" | "or", args=(left, right)):
                first = self.evaluate(left, scope)
                decided = first.value if expr.name == "and" else ~first.value
                return apply_operator(expr.name, (first, self.evaluate(right, scope.where(decided))), expr.dtype)
            case Op(name=name, args=args, dtype=dtype):
                operands = tuple(self.evaluate(arg, scope) for arg in args)
                if dtype == INT64:
                    operands = tuple(map(_as_subscript, operands))
                nonnegative = dtype.is_float and is_nonnegative(args[0])
                return apply_operator(name, operands, dtype, nonnegative=nonnegative)
            case Select(condition=condition, then=then, orelse=orelse):
                chosen = self.evaluate(condition, scope)
                yes = self.evaluate(then, scope.where(chosen.value))
                return select(chosen, yes, self.evaluate(orelse, scope.where(~chosen.value)))
            case Cast(arg=arg, to=to):
                return convert(self.evaluate(arg, scope), arg.dtype, to)
            case Reduce():
                return self._reduce(expr, scope)
            case Scan():
                return self._scan(expr, scope)
        raise TypeError(f"not an expression: {expr!r}")

    def _read(self, node: Read, scope: Scope) -> Tracked:
        contents = self.contents(node.array)
        if not node.exact and (slices := as_slices(node.subscripts, scope, contents.shape)) is not None:
            region, axes = slices
            x = contents.load_region(region)
            bound = None if x.bound is None else to_scope_axes(x.bound, axes)
            return Tracked(to_scope_axes(x.value, axes), bound, x.integral)
        outside: Values = np.zeros((), np.bool_)
        is_uncertain: Values = np.zeros((), np.bool_)
        coordinates: list[Values] = []
        for dimension, (subscript, extent) in enumerate(zip(node.subscripts, contents.shape, strict=True)):
            subscript_value = _as_subscript(self.evaluate(subscript, scope))
            if subscript_value.bound is not None:
                is_uncertain = is_uncertain | (subscript_value.bound > 0)
            inside, outside_here = apply_boundary(subscript_value.value, extent, node.boundary)
            if outside_here is not None:
                if node.boundary is None:
                    self._reject(node, dimension, extent, subscript_value.value, scope.active(outside_here))
                outside = outside | outside_here
            coordinates.append(inside)
        for dividend, divisor in node.exact:
            remainder = self.evaluate(dividend, scope).value % divisor
            if node.boundary is None and scope.active(remainder != 0).any():
                raise OutsideError(f"{self.text}: {node.array} is read at a quotient by {divisor} that isn't exact")
            outside = outside | (remainder != 0)
        filler = constant(node.boundary.value or 0 if node.boundary is not None else 0, node.dtype)
        if 0 in contents.shape:
            return Tracked(
                np.broadcast_to(filler.value, np.broadcast_shapes(outside.shape, *(p.shape for p in coordinates)))
            )
        x = contents.load_region(tuple(np.broadcast_arrays(*coordinates)) if coordinates else ())
        if outside.any() and node.boundary is not None:
            x = select(Tracked(outside), filler, x)
        if is_uncertain.any():
            x = Tracked(x.value, np.where(is_uncertain, np.inf, x.slack))
        return x

    def _reject(self, node: Read, dimension: int, extent: int, subscript: Values, bad: Values) -> None:
        if bad.any():
            value = np.broadcast_to(subscript, bad.shape)[bad].flat[0]
            raise OutsideError(
                f"{self.text}: subscript {dimension} of {node.array} is {value}, outside 0 .. {extent - 1}"
            )

    def _bound(self, indices: tuple[Index, ...], scope: Scope) -> tuple[Scope, tuple[int, ...]]:
        extents = tuple(integer(index.extent, self.params) for index in indices)
        for index, extent in zip(reversed(indices), reversed(extents), strict=True):
            scope = scope.bind(index.name, 0, extent)
        return scope, extents

    def _reduce(self, node: Reduce, scope: Scope) -> Tracked:
        """The reduction, once for all scattered points at which its free indices are the same."""
        if (shared := scope.distinct(free_indices(node))) is not None:
            distinct, which = shared
            return self._reduce(node, distinct).taken(which)
        factors = converted_factors(node, self._dtype_of, self.precision.tf32)
        return replace(self, factors=factors)._reduced(node, scope)

    def _dtype_of(self, array: str) -> DType:
        return self.contents(array).dtype

    def _operand_type(self, array: str) -> DType:
        return self.converted.get(array) or self._dtype_of(array)

    def _reduced(self, node: Reduce, scope: Scope) -> Tracked:
        inner, extents = self._bound(node.indices, scope)
        if node.is_position:
            return argument_of_extremum(node.kind, *self._terms(node, inner))
        if node.kind == "sum":
            terms = separate_terms(node) if node.dtype.is_float else ()
            return self._sum_of_terms(node, terms, scope) if terms else self._sum(node, scope)[1]
        partials = (self._reduce_chunk(node, chunk, len(extents)) for chunk in _chunked(node, inner, extents))
        operator = {"prod": "mul", "max": "maximum", "min": "minimum", "any": "or", "all": "and"}[node.kind]
        return functools.reduce(lambda a, b: apply_operator(operator, (a, b), node.dtype), partials)

    def _sum(self, node: Reduce, scope: Scope) -> tuple[Sum, Tracked]:
        """A sum, and its result."""
        inner, extents = self._bound(node.indices, scope)
        total = self._contract(node, inner, extents)
        if total is None:
            chunks = _chunked(node, inner, extents)
            sums = (reduce_sum(*self._terms(node, chunk), len(extents), node.dtype) for chunk in chunks)
            total = functools.reduce(Sum.plus, sums)
        truncated = truncation(node, self._operand_type, self.precision, has_wgmma=self.has_wgmma)
        result = total.result(node.dtype, truncated=truncated)
        if (convolution := self.winograd.get(node)) is not None:
            channels = tuple(integer(index.extent, self.params) for index in convolution.channels)
            is_tf32 = self.precision.tf32
            return total, with_winograd(result, convolution, scope, channels, self.evaluate, tf32=is_tf32)
        return total, self._with_scales_outside(node, scope, self._with_factors_outside(node, scope, total, result))

    def _sum_of_terms(self, node: Reduce, terms: tuple[Term, ...], scope: Scope) -> Tracked:
        """The result of a sum with its terms in any order, or each term's, where tensor cores may multiply."""
        total: Sum | None = None
        by_terms: Tracked | None = None
        for term in terms:
            of_term = replace(node, body=term.expr)
            factors = converted_factors(of_term, self._dtype_of, self.precision.tf32)
            added, result = replace(self, factors=factors)._sum(of_term, scope)
            added = replace(added, value=-added.value) if term.is_negative else added
            total = added if total is None else total.plus(added)
            if by_terms is None:
                by_terms = replace(result, value=-result.value) if term.is_negative else result
            else:
                by_terms = apply_operator("sub" if term.is_negative else "add", (by_terms, result), node.dtype)
        assert total is not None
        assert by_terms is not None
        together = total.result(node.dtype)
        if together.bound is None and by_terms.bound is None:
            return together
        bound = np.maximum(together.slack, deviation(together.value, by_terms.value) + by_terms.slack)
        return Tracked(together.value, bound)

    def _with_factors_outside(self, node: Reduce, scope: Scope, total: Sum, result: Tracked) -> Tracked:
        """The result of a sum, within whose bound is also the product of the factors of all terms and the sum of the
        rest: where one of the two overflows, the other need not."""
        if (split_off := factored(node)) is None:
            return result
        factor = np.abs(self.evaluate(split_off.factor, scope).value)
        with np.errstate(divide="ignore", invalid="ignore"):
            is_finite = np.isfinite(total.magnitude) & np.isfinite(factor)
            may_overflow = ~is_finite | (total.magnitude / factor >= format_of(node.dtype).overflow)
        if not may_overflow.any():
            return result
        product = self.evaluate(split_off.product, scope)
        gap = deviation(result.value, product.value) + product.slack
        return replace(result, bound=np.maximum(result.slack, np.where(may_overflow, gap, 0.0)))

    def _with_scales_outside(self, node: Reduce, scope: Scope, result: Tracked) -> Tracked:
        """The result of a sum, any number where the factor of a group of terms is infinite, or a sum of its terms
        without these factors may overflow."""
        if (unscaled := without_scales(node)) is None:
            return result
        limit, (inner, extents) = format_of(node.dtype).overflow, self._bound(node.indices, scope)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            if np.isinf(self.evaluate(unscaled.factor, inner).value).any():
                scale = replace(node, kind="max", body=Op("abs", (unscaled.factor,), node.dtype))
                largest_scale = self.evaluate(scale, scope).value
                result = replace(result, bound=np.where(np.isinf(largest_scale), np.inf, result.slack))
            largest = (np.max(np.abs(self.evaluate(f, inner).value), initial=0) for f in factors_of(unscaled.total))
            if math.prod(map(float, largest)) * math.prod(extents) < limit:
                return result
            magnitude = self._sum(unscaled.total, scope)[0].magnitude
        return replace(result, bound=np.where(magnitude < limit, result.slack, np.inf))

    def _reduce_chunk(self, node: Reduce, chunk: Scope, axes: int) -> Tracked:
        body, where = self._terms(node, chunk)
        terms = mask_terms(body, where, identity(node.kind, node.dtype))
        if node.kind == "prod":
            return reduce_product(terms, axes, node.dtype)
        return reduce_extremum(node.kind, terms, axes, node.dtype)

    def _terms(self, node: Reduce | Scan, inner: Scope) -> tuple[Tracked, Tracked | None]:
        """Body and condition; the body is broadcast to the full extents of the bound axes."""
        where = None if node.where is None else self.evaluate(node.where, inner)
        body = self.evaluate(node.body, inner if where is None else inner.where(where.value))
        indices = node.indices if isinstance(node, Reduce) else (node.inner,)
        shape = tuple(inner.ranges[i.name][1] - inner.ranges[i.name][0] for i in indices)

        def full(values: Values) -> Values:
            values = values.reshape((1,) * (inner.depth - values.ndim) + values.shape)
            return np.broadcast_to(values, shape + values.shape[len(shape) :])

        value = full(body.value)
        bound = None if body.bound is None else np.broadcast_to(full(body.bound), value.shape)
        return Tracked(value, bound, body.integral), where

    def _contract(self, node: Reduce, inner: Scope, extents: tuple[int, ...]) -> Sum | None:
        shared_axis = frozenset(name for name in inner.values if name not in inner.ranges)
        sizes = {name: max(values.shape, default=1) for name, values in inner.values.items()}
        operands = split(node, sizes, shared_axis)
        if operands is None:
            return None
        conditions = [self.evaluate(condition, inner) for condition in conjuncts(node.where)]
        if any(condition.bound is not None for condition in conditions):
            return None
        for condition in conditions:
            inner = inner.where(condition.value)
        a, b = (multiply([self.evaluate(factor, inner) for factor in operand], node.dtype) for operand in operands)
        return contract(a, b, [condition.value for condition in conditions], extents, node.dtype)

    def _scan(self, node: Scan, scope: Scope) -> Tracked:
        inner, _ = self._bound((node.inner,), scope)
        try:
            body, where = self._terms(node, inner)
        except OutsideError:  # perhaps of elements that no chosen result has reached
            body, where = self._terms(node, inner.where(self._is_reached(node, inner, scope)))
        terms = mask_terms(body, where, identity(node.kind, node.dtype))
        prefixes = scan(node.kind, terms, node.dtype, exclusive=node.exclusive, reverse=node.reverse)
        depth = prefixes.value.ndim - 1
        sides = tuple(
            np.arange(size).reshape((-1,) + (1,) * (depth - 1 - axis)) if size > 1 else np.zeros((1,) * depth, np.int64)
            for axis, size in enumerate(prefixes.value.shape[1:])
        )
        coordinates = (scope.values[node.outer], *sides)
        bound = None if prefixes.bound is None else np.broadcast_to(prefixes.bound, prefixes.value.shape)[coordinates]
        return Tracked(prefixes.value[coordinates], bound, prefixes.integral)

    @staticmethod
    def _is_reached(node: Scan, inner: Scope, outer: Scope) -> Values:
        """Whether a result has an element of its scan, by both indices, which may share a name."""
        first, last = inner.values[node.inner.name], outer.values[node.outer]
        if node.reverse:
            first, last = last, first
        return first < last if node.exclusive else first <= last


def _chunked(node: Reduce, inner: Scope, extents: tuple[int, ...]) -> list[Scope]:
    """Splits the reduction's scope along its longest index, so that arrays stay below MAX_TERMS."""
    names = frozenset().union(*map(free_indices, children(node))) | {index.name for index in node.indices}
    shape = np.broadcast_shapes(*(inner.values[name].shape for name in sorted(names)))
    total = int(np.prod(shape, dtype=np.float64)) if 0 not in shape else 0
    if total <= MAX_TERMS:
        return [inner]
    longest = max(range(len(extents)), key=lambda i: extents[i])
    step = max(1, extents[longest] * MAX_TERMS // total)
    chunks = []
    for start in range(0, extents[longest], step):
        chunks.append(restrict(inner, node.indices[longest].name, start, min(start + step, extents[longest])))
    return chunks


def restrict(scope: Scope, name: str, start: int, stop: int) -> Scope:
    """The scope with the range of one index restricted to start .. stop - 1."""
    _, _, axis = scope.ranges[name]
    column = np.arange(start, stop, dtype=np.int64).reshape((-1,) + (1,) * axis)
    ranges = {**scope.ranges, name: (start, stop, axis)}
    return Scope({**scope.values, name: column}, ranges, scope.depth, scope.masks)


def as_slices(
    subscripts: tuple[Expr, ...], scope: Scope, shape: tuple[int, ...]
) -> tuple[Region, tuple[int, ...]] | None:
    """Basic NumPy slicing for an access, with the slices' axes in the scope; None where it needs a gather.

    Subscripts must be constants or distinct indices whose ranges are in bounds."""
    region: list[slice | int | Values | None] = []
    axes: list[int] = []
    for subscript, extent in zip(subscripts, shape, strict=True):
        match subscript:
            case Const(value=value) if 0 <= value < extent:
                region.append(int(value))
            case IndexValue(name=name) if name in scope.ranges:
                start, stop, axis = scope.ranges[name]
                if stop > extent or axis in axes:
                    return None
                region.append(slice(start, stop))
                axes.append(axis)
            case _:
                return None
    return tuple(region), tuple(axes)


def to_scope_axes(values: Values, axes: tuple[int, ...]) -> Values:
    """A view of the array with its dimensions at the given axes of a scope, counted from the last."""
    ordered = values.transpose(sorted(range(len(axes)), key=lambda i: -axes[i]))
    leading = range(max(axes, default=-1), -1, -1)
    view: Values = ordered[(..., *(slice(None) if axis in axes else None for axis in leading))]
    return view


def _as_subscript(x: Tracked) -> Tracked:
    """The value in int64, the type of subscripts; uint64 elements of a gather have no cast in the tree."""
    return replace(x, value=x.value.astype(np.int64)) if x.value.dtype == np.uint64 else x
