"""Comparison of one outcome with the reference: outputs, padding and inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cugen.abi.manifest import ArrayArgument
from cugen.reference.result import Result
from cugen.runtime.buffers import bits, gaps, poison, view
from cugen.runtime.device import Job, Outcome
from cugen.spec.types import DTYPES, DType

Points = Mapping[str, NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class WorstElement:
    """The element with the largest error relative to its bound."""

    array: str
    index: tuple[int, ...]
    actual: float
    expected: float
    difference: float
    allowed: float

    def __str__(self) -> str:
        element = f"{self.array}[{', '.join(map(str, self.index))}]"
        return (
            f"{element} is {self.actual:.9g}, expected {self.expected:.9g}: "
            f"off by {self.difference:.3g}, allowed {self.allowed:.3g}"
        )


@dataclass(frozen=True, slots=True)
class NonFinite:
    """Counts of NaN and infinities among the compared elements of an output, in the result and in the reference."""

    array: str
    compared: int
    nan: int
    inf: int
    reference_nan: int
    reference_inf: int


@dataclass(frozen=True, slots=True)
class Verification:
    """`checked` is "all" or "sample of n" (output elements). `tolerance` is the maximum error bound of the compared
    elements; `messages` describe failures; `nonfinite` are the outputs whose reference isn't finite."""

    passed: bool
    checked: str
    max_abs_error: float
    max_rel_error: float
    tolerance: float
    worst: WorstElement | None
    messages: tuple[str, ...]
    nonfinite: tuple[NonFinite, ...] = ()


def compare(job: Job, outcome: Outcome, results: Mapping[str, Result], points: Points | None = None) -> Verification:
    """`results` are the reference's whole arrays, or their elements at `points`.

    Padding, inputs and faults are always checked completely."""
    messages = [
        f"{fault.kind}: {fault.message}" + (f" (line {fault.line})" * (fault.line > 0)) for fault in outcome.faults
    ]
    errors = [_Errors.nothing()]
    nonfinite: list[NonFinite] = []
    for argument in job.manifest.arguments:
        if not isinstance(argument, ArrayArgument):
            continue
        if argument.name not in outcome.buffers:
            if argument.role != "input":
                messages.append(f"{argument.name}: the device returned no buffer")
            continue
        before, after = job.buffers[argument.name], outcome.buffers[argument.name]
        params = {**job.manifest.params, **job.params}
        messages += _untouched(argument, before, after, params)
        if argument.role == "input":
            continue
        actual = view(after, argument, params)
        indices = None if points is None else points[argument.name]
        errors.append(_Errors.of(argument.name, actual, results[argument.name], indices))
        messages += _mismatches(argument, errors[-1], actual, before)
        nonfinite += _nonfinite(argument.name, actual, results[argument.name], indices)
    largest = max(errors, key=lambda e: (e.wrong > 0, e.excess))
    compared = sum(e.compared for e in errors)
    return Verification(
        passed=not messages,
        checked="all" if points is None else f"sample of {compared}",
        max_abs_error=max(e.absolute for e in errors),
        max_rel_error=max(e.relative for e in errors),
        tolerance=max(e.tolerance for e in errors),
        worst=largest.worst,
        messages=tuple(messages),
        nonfinite=tuple(nonfinite),
    )


def _nonfinite(name: str, array: NDArray[Any], result: Result, points: NDArray[np.int64] | None) -> Iterator[NonFinite]:
    """The counts of an output, where the reference has NaN or infinities."""
    expected = result.value.astype(np.float64)
    if np.isfinite(expected).all():
        return
    actual = (array if points is None else array.reshape(-1)[points]).astype(np.float64)
    counts = [int(count(part).sum()) for part in (actual, expected) for count in (np.isnan, np.isinf)]
    yield NonFinite(name, actual.size, *counts)


@dataclass(frozen=True, slots=True)
class _Errors:
    """Errors of one output. `excess` is the worst element's error divided by its bound."""

    compared: int
    wrong: int
    absolute: float
    relative: float
    tolerance: float
    excess: float
    worst: WorstElement | None

    @staticmethod
    def nothing() -> _Errors:
        return _Errors(0, 0, 0.0, 0.0, 0.0, -1.0, None)

    @staticmethod
    def of(name: str, array: NDArray[Any], result: Result, points: NDArray[np.int64] | None) -> _Errors:
        shape = array.shape
        compared = array if points is None else array.reshape(-1)[points]
        if not compared.size:
            return _Errors.nothing()
        wrong = ~np.asarray(result.accepts(compared))
        with np.errstate(all="ignore"):
            expected = result.value.astype(np.float64)
            actual = compared.astype(np.float64)
            same = (compared == result.value) | (np.isnan(actual) & np.isnan(expected))
            # Relative to the value before its last rounding, as the bound is.
            difference = np.where(same, 0.0, np.abs(actual - result.exact.astype(np.float64)))
            difference = np.where(np.isnan(difference), np.inf, difference)
            relative = difference / np.where(expected == 0, 1.0, np.abs(expected))
            excess = np.where(difference == 0, 0.0, difference / np.maximum(result.bound, np.finfo(np.float64).tiny))
        worst = int(np.argmax(np.where(wrong, excess, -1.0) if wrong.any() else excess))
        number = worst if points is None else int(points[worst])
        figures = [float(np.asarray(part).reshape(-1)[worst]) for part in (actual, expected, difference, result.bound)]
        finite = np.isfinite(difference) & np.isfinite(result.bound)
        return _Errors(
            compared=compared.size,
            wrong=int(wrong.sum()),
            absolute=float(np.max(difference, where=finite | wrong, initial=0.0)),
            relative=float(np.max(relative, where=(finite | wrong) & np.isfinite(expected), initial=0.0)),
            tolerance=float(np.max(result.bound, where=np.isfinite(result.bound), initial=0.0)),
            excess=float(excess.reshape(-1)[worst]),
            worst=WorstElement(name, tuple(int(i) for i in np.unravel_index(number, shape)), *figures),
        )


def _mismatches(argument: ArrayArgument, errors: _Errors, actual: NDArray[Any], before: NDArray[Any]) -> Iterator[str]:
    dtype = DTYPES[argument.dtype]
    if argument.role == "output" and (errors.wrong or (errors.compared < actual.size and _is_unlikely(dtype))):
        pattern = bits(before[:1])
        unwritten = np.flatnonzero(bits(actual).reshape(-1) == pattern) if pattern.size else pattern
        if unwritten.size and _is_poison(before, dtype):
            first = ", ".join(str(int(i)) for i in np.unravel_index(int(unwritten[0]), actual.shape))
            count = f"{unwritten.size} of {actual.size} elements"
            yield f"{argument.name}: {count} were not written, the first at [{first}]"
    if errors.wrong:
        yield f"{argument.name}: {errors.wrong} of {errors.compared} elements differ; the worst: {errors.worst}"


def _is_unlikely(dtype: DType) -> bool:
    """Whether the poison of this type is practically never the result of a computation."""
    return dtype.bits >= 32 or (dtype.is_float and dtype.bits > 8)


def _is_poison(buffer: NDArray[Any], dtype: DType) -> bool:
    return any(bits(buffer[:1]) == bits(poison(dtype, 1, variant)) for variant in (0, 1))


def _untouched(
    argument: ArrayArgument, before: NDArray[Any], after: NDArray[Any], params: Mapping[str, int]
) -> Iterator[str]:
    changed = bits(before) != bits(after)
    if argument.role == "input":
        if changed.any():
            first = int(np.argmax(changed))
            yield f"{argument.name} is an input and was changed, first at element {first} of its buffer"
    elif (outside := changed & gaps(argument, params)).any():
        first = int(np.argmax(outside))
        yield f"{argument.name}: {outside.sum()} elements of its pitch padding were written, the first at {first}"
