"""Reductions and scans with error bounds; the leading axes of a value's array are reduced.

For a sum of n terms the bound is Σ bounds + γ·max Σ|terms of one sign| with γ = (n - 1)·u / (1 - (n - 1)·u): each of
n - 1 additions has an error of u times its partial sum, in any order (Higham, section 4.2). Products multiply the
relative errors of their factors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cugen.reference.storage import Floats, Values, format_of, numpy_dtype, working_dtype
from cugen.reference.tracked import Bound, Tracked, apply_overflow, combine, deviation, integers_are_exact, unit
from cugen.spec.types import DType, Kind


def gamma(terms: Values | int, dtype: DType) -> Floats:
    """γ of a sum of n terms (n - 1 roundings); inf where (n - 1)·u ≥ 1, outside the analysis."""
    relative = np.maximum(np.asarray(terms, np.float64) - 1, 0.0) * unit(dtype)
    return np.where(relative < 1, relative / (1 - relative), np.inf)


def identity(kind: str, dtype: DType) -> int | float | bool:
    """The identity element of a reduction, its value over an empty range."""
    match kind:
        case "sum":
            return 0
        case "prod":
            return 1
        case "any" | "all":
            return kind == "all"
        case "max" | "min" if dtype.is_float:
            return -np.inf if kind == "max" else np.inf
        case "max":
            return dtype.lowest
        case "min":
            return dtype.highest
    raise TypeError(f"no identity for {kind}")


def mask_terms(body: Tracked, where: Tracked | None, empty: int | float | bool) -> Tracked:
    """The body with the identity `empty` where the mask is false; both where rounding decides the mask."""
    if where is None:
        return body
    filler = np.asarray(empty, dtype=body.value.dtype)
    value = np.where(where.value, body.value, filler)
    if body.bound is None and where.bound is None:
        return Tracked(value, None, body.integral and bool(np.isfinite(empty)))
    bound = np.where(where.value, body.slack, 0.0)
    if where.bound is not None:
        gap = deviation(body.value.astype(np.float64), filler.astype(np.float64)) + body.slack
        bound = np.where(where.bound > 0, gap, bound)
    return Tracked(value, bound)


@dataclass(frozen=True, slots=True)
class Truncation:
    """Additions that are truncated to so many `bits`, of so many `terms` at a time; 0 for all of a sum. Each term is
    the sum of so many `additions`, all of one sign."""

    bits: int
    terms: int = 0
    additions: int = 1


@dataclass(frozen=True, slots=True)
class Sum:
    """A partial sum: its value, Σ(|terms| + bounds), Σ bounds, and the number of terms."""

    value: Values
    magnitude: Floats
    inherited: Bound
    terms: Values | int
    integral: bool

    def plus(self, addend: Sum) -> Sum:
        """The combined partial sum of two disjoint ranges."""
        return Sum(
            self.value + addend.value,
            self.magnitude + addend.magnitude,
            combine(self.inherited, addend.inherited),
            self.terms + addend.terms,
            self.integral and addend.integral,
        )

    def result(self, dtype: DType, *, truncated: Truncation | None = None) -> Tracked:
        """The sum in compute type `dtype`, with its error bound over all summation orders. Additions that may truncate
        have twice the error, and one instruction of tensor cores that of two more."""
        if not dtype.is_float:
            return Tracked(self.value, _unbounded_if_wrapping(self.inherited, self.magnitude, dtype))
        lost = 2.0 ** (format_of(dtype).digits - truncated.bits) if truncated else 1.0  # of the precision of `dtype`
        if self.integral and integers_are_exact(self.magnitude * lost, dtype):
            return Tracked(self.value, None, integral=True)
        finite = np.isfinite(self.value)
        # A partial sum is at most the sum of the terms of one sign, plus earlier rounding errors.
        relative = gamma(self.terms, dtype)
        if truncated:
            together = np.minimum(self.terms, truncated.terms or self.terms)
            rounded = relative if truncated.terms else 0.0  # the additions of the parts
            relative = 2 * (truncated.additions * together + 1) * unit(dtype) * lost + rounded
        majority = (self.magnitude + np.abs(self.value)) / 2
        reach = np.minimum(majority + relative * self.magnitude, self.magnitude)
        error = np.where(finite, relative * reach, 0.0)
        if self.inherited is not None:
            error = error + self.inherited
        return apply_overflow(self.value, np.where(self._may_overflow(dtype), np.inf, error), dtype)

    def _may_overflow(self, dtype: DType) -> Values:
        """Whether overflow depends on the order: the terms of one sign overflow, but the sum need not."""
        limit = format_of(dtype).overflow
        size = np.abs(self.value)
        majority, minority = (self.magnitude + size) / 2, (self.magnitude - size) / 2
        undecided: Values = np.where(size >= limit, minority >= limit, majority >= limit) & np.isfinite(size)
        return undecided


def _unbounded_if_wrapping(bound: Bound, magnitude: Floats, dtype: DType) -> Bound:
    if bound is None:
        return None
    return np.where((bound > 0) & (magnitude >= float(dtype.highest)), np.inf, bound)


def reduce_sum(body: Tracked, where: Tracked | None, axes: int, dtype: DType) -> Sum:
    """The partial sum over the first `axes` axes of the body's array."""
    terms = mask_terms(body, where, 0)
    over = tuple(range(axes))
    count: Values | int = int(np.prod(terms.value.shape[:axes]))
    if where is not None and where.bound is None:
        count = np.asarray(np.sum(np.broadcast_to(where.value, terms.value.shape), axis=over, dtype=np.int64))
    value = np.sum(terms.value, axis=over, dtype=working_dtype(dtype))
    inherited = None if terms.bound is None else np.sum(np.broadcast_to(terms.bound, terms.value.shape), axis=over)
    if not dtype.is_float and inherited is None:
        return Sum(value, np.zeros(()), None, count, False)
    magnitude = np.sum(np.abs(terms.value.astype(np.float64, copy=False)), axis=over)
    if inherited is not None:
        magnitude = magnitude + inherited
    return Sum(value, magnitude, inherited, count, terms.integral)


def _broadcast_shape(a: Values, b: Values) -> tuple[int, ...]:
    return np.broadcast_shapes(a.shape, b.shape)


def reduce_product(factors: Tracked, axes: int, dtype: DType) -> Tracked:
    """The product over the first `axes` axes, with its error bound over all orders."""
    over = tuple(range(axes))
    value = np.prod(factors.value, axis=over, dtype=working_dtype(dtype))
    if not dtype.is_float:
        bound = factors.bound
        worst = None if bound is None else np.max(np.broadcast_to(bound, factors.value.shape), axis=over, initial=0)
        return Tracked(value, None if worst is None else np.where(worst > 0, np.inf, 0.0))
    size = np.abs(factors.value)
    largest = np.prod(np.maximum(size, 1.0), axis=over)
    if factors.integral and integers_are_exact(largest, dtype):
        return Tracked(value, None, integral=True)
    unbounded = None
    if factors.bound is not None:
        unbounded = np.any(np.isinf(np.broadcast_to(factors.bound, factors.value.shape)), axis=over)
    return _product(
        value,
        np.prod(size + factors.slack, axis=over),
        (largest, np.prod(np.minimum(size, 1.0), axis=over)),
        int(np.prod(factors.value.shape[:axes])),
        unbounded,
        dtype,
    )


def _product(
    value: Floats, reach: Floats, parts: tuple[Floats, Floats], terms: Values | int, unbounded: Bound, dtype: DType
) -> Tracked:
    """A product with its bound; `reach` is the product of the factors' largest magnitudes, errors included.

    `parts` are the products of the factors above 1 and of those below: an order of evaluation may overflow, or lose
    digits to underflow, even if the product itself doesn't."""
    form = format_of(dtype)
    largest, smallest = parts
    finite = np.isfinite(value)
    error = np.where(finite, (reach - np.abs(value)) + gamma(np.asarray(terms) + 1, dtype) * reach, 0.0)
    is_subnormal = finite & (smallest < form.tiny / form.unit)
    error = np.where(is_subnormal, error + np.asarray(terms) * form.tiny * np.maximum(largest, 1.0), error)
    is_unbounded = (largest >= form.overflow) & (smallest < 1) & ~np.isnan(value)
    if unbounded is not None:
        is_unbounded = is_unbounded | (unbounded > 0)
    return apply_overflow(value, np.where(is_unbounded, np.inf, error), dtype)


def reduce_extremum(kind: str, terms: Tracked, axes: int, dtype: DType) -> Tracked:
    """max, min, any or all over the first `axes` axes; NaN propagates."""
    over = tuple(range(axes))
    if kind in ("any", "all"):
        fold = np.any if kind == "any" else np.all
        value = np.asarray(fold(terms.value, axis=over))
        if terms.bound is None:
            return Tracked(value)
        is_undecided = np.broadcast_to(terms.bound > 0, terms.value.shape)
        upper, lower = fold(terms.value | is_undecided, axis=over), fold(terms.value & ~is_undecided, axis=over)
        return Tracked(value, np.asarray(upper != lower).astype(np.float64))
    pick = np.maximum if kind == "max" else np.minimum
    empty = identity(kind, dtype)
    value = pick.reduce(terms.value, axis=over, initial=empty)
    if terms.bound is None:
        return Tracked(value, None, terms.integral and bool(np.all(np.isfinite(value))))
    near, fill = terms.value.astype(np.float64, copy=False), float(empty)
    high = pick.reduce(near + terms.bound, axis=over, initial=fill)
    low = pick.reduce(near - terms.bound, axis=over, initial=fill)
    as_float = np.asarray(value, np.float64)
    bound = np.maximum(deviation(as_float, high), deviation(as_float, low))
    return Tracked(value, bound)


def argument_of_extremum(kind: str, body: Tracked, where: Tracked | None) -> Tracked:
    """argmax or argmin over the first axis: the first of equal values, NaN above all, 0 for an empty range."""
    value = body.value
    shape = value.shape if where is None else _broadcast_shape(value, where.value)
    value = np.broadcast_to(value, shape)
    allowed = np.ones(shape, np.bool_) if where is None else np.broadcast_to(where.value, shape)
    pick = np.maximum if kind == "argmax" else np.minimum
    floating = value.dtype.kind == "f"
    lowest = (-np.inf if kind == "argmax" else np.inf) if floating else _identity_of_integers(kind, value)
    best = pick.reduce(value, axis=0, where=allowed, initial=lowest)
    winner = (value == best) | (np.isnan(value) & np.isnan(best)) if floating else value == best
    answer = np.argmax(winner & allowed, axis=0)
    bound: Bound = None
    candidates = None
    if body.bound is not None or (where is not None and where.bound is not None):
        sign = 1.0 if kind == "argmax" else -1.0
        merit, slack = sign * value.astype(np.float64), np.broadcast_to(body.slack, shape)
        may_be_included = np.zeros(shape, np.bool_) if where is None else np.broadcast_to(where.slack > 0, shape)
        is_included = allowed & ~may_be_included
        threshold = np.max(merit - slack, axis=0, where=is_included, initial=-np.inf)
        possible = (merit + slack >= threshold) | np.isnan(merit) | np.isinf(slack)
        certain_nan = np.any(np.isnan(merit) & (slack < np.inf) & is_included, axis=0)
        possible = np.where(certain_nan, np.isnan(merit) | np.isinf(slack), possible) & (allowed | may_be_included)
        # Among equal values without error, only the first is admissible.
        candidates = possible & ~(
            winner & (slack == 0) & ~may_be_included & (np.arange(shape[0]).reshape(_column(shape)) > answer)
        )
        bound = np.where(np.sum(candidates, axis=0) > 1, np.inf, 0.0)
    if where is not None:
        empty = ~np.any(allowed, axis=0)
        if empty.any():
            bound = np.where(empty, np.inf, 0.0 if bound is None else bound)
    return Tracked(answer.astype(np.int64), bound, False, candidates)


def _column(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (shape[0],) + (1,) * (len(shape) - 1)


def _identity_of_integers(kind: str, value: Values) -> int:
    if value.dtype.kind == "b":
        return int(kind != "argmax")
    limits = np.iinfo(value.dtype)
    return int(limits.min if kind == "argmax" else limits.max)


def scan(kind: str, terms: Tracked, dtype: DType, *, exclusive: bool, reverse: bool) -> Tracked:
    """A prefix (reverse: suffix) reduction along the first axis, inclusive unless `exclusive`."""

    def accumulate(ufunc: np.ufunc, values: Values, empty: int | float | bool) -> Values:
        ordered = values[::-1] if reverse else values
        prefixes = ufunc.accumulate(ordered, axis=0, dtype=values.dtype)
        if exclusive and len(prefixes):
            first = np.full_like(prefixes[:1], empty)
            prefixes = np.concatenate([first, prefixes[:-1]])
        return prefixes[::-1] if reverse else prefixes

    empty = identity(kind, dtype)
    values = terms.value.astype(numpy_dtype(dtype) if dtype.kind is not Kind.FLOAT else np.float64, copy=False)
    slack = None if terms.bound is None else np.broadcast_to(terms.bound, values.shape)
    ufunc = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[kind]
    result = accumulate(ufunc, values, empty)
    if kind in ("max", "min"):
        if slack is None:
            return Tracked(result, None, terms.integral and bool(np.all(np.isfinite(result))))
        near = values.astype(np.float64)
        endpoints = [accumulate(ufunc, near + sign * slack, float(empty)) for sign in (1, -1)]
        as_float = result.astype(np.float64)
        return Tracked(result, np.maximum(deviation(as_float, endpoints[0]), deviation(as_float, endpoints[1])))
    if not dtype.is_float:
        worst = None if slack is None else accumulate(np.maximum, slack, 0.0)
        return Tracked(result, None if worst is None else np.where(worst > 0, np.inf, 0.0))
    size = np.abs(values)
    steps = np.arange(len(values)).reshape(_column(values.shape))
    count = (len(values) - steps if reverse else steps + 1) - int(exclusive)
    if kind == "sum":
        inherited = None if slack is None else accumulate(np.add, slack, 0.0)
        magnitude = accumulate(np.add, size if slack is None else size + slack, 0.0)
        return Sum(result, magnitude, inherited, count, terms.integral).result(dtype)
    largest = accumulate(np.multiply, np.maximum(size, 1.0), 1.0)
    if terms.integral and integers_are_exact(largest, dtype):
        return Tracked(result, None, integral=True)
    reach = accumulate(np.multiply, size + terms.slack, 1.0)
    smallest = accumulate(np.multiply, np.minimum(size, 1.0), 1.0)
    unbounded = None if slack is None else accumulate(np.maximum, np.isinf(slack).astype(np.float64), 0.0)
    return _product(result, reach, (largest, smallest), count, unbounded, dtype)
