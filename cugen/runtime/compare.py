"""One outcome against the reference: every element, every gap, every input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cugen.abi.manifest import ArrayArgument
from cugen.reference.result import Result
from cugen.runtime.buffers import bits, gaps, poison, view
from cugen.runtime.device import Fault, Job, Outcome
from cugen.spec.types import DTYPES, DType

Points = Mapping[str, NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class Worst:
    """The element that is furthest from what is allowed. `index` has one number per dimension."""

    array: str
    index: tuple[int, ...]
    got: float
    expected: float
    difference: float
    allowed: float

    def __str__(self) -> str:
        place = f"{self.array}[{', '.join(map(str, self.index))}]"
        return (
            f"{place} is {self.got:.9g}, expected {self.expected:.9g}: "
            f"off by {self.difference:.3g}, allowed {self.allowed:.3g}"
        )


@dataclass(frozen=True, slots=True)
class Verification:
    """`checked` is "all" or "sample of n" (elements of the outputs). `tolerance` is the greatest error that rounding
    explains in any element compared; `messages` say what is wrong, and are empty where `passed`."""

    passed: bool
    checked: str
    max_abs_error: float
    max_rel_error: float
    tolerance: float
    worst: Worst | None
    messages: tuple[str, ...]


def compare(job: Job, outcome: Outcome, results: Mapping[str, Result], points: Points | None = None) -> Verification:
    """`results` are the reference's: whole arrays, or for `points` their elements alone.

    Gaps, inputs and faults are looked at in full whatever `points`."""
    messages = [
        f"{fault.kind}: {fault.message}" + (f" (line {fault.line})" * (fault.line > 0)) for fault in outcome.faults
    ]
    errors = [_Errors.nothing()]
    for argument in job.manifest.arguments:
        if not isinstance(argument, ArrayArgument):
            continue
        if argument.name not in outcome.buffers:
            if argument.role != "input":
                messages.append(f"{argument.name}: the device gave nothing back")
            continue
        before, after = job.buffers[argument.name], outcome.buffers[argument.name]
        params = {**job.manifest.params, **job.params}
        messages += _untouched(argument, before, after, params)
        if argument.role == "input":
            continue
        got = view(after, argument, params)
        places = None if points is None else points[argument.name]
        errors.append(_Errors.of(argument.name, got, results[argument.name], places))
        messages += _complaints(argument, errors[-1], got, before)
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
    )


@dataclass(frozen=True, slots=True)
class _Errors:
    """Of one output. `excess` is the worst element's error over what it is allowed."""

    compared: int
    wrong: int
    absolute: float
    relative: float
    tolerance: float
    excess: float
    worst: Worst | None

    @staticmethod
    def nothing() -> _Errors:
        return _Errors(0, 0, 0.0, 0.0, 0.0, -1.0, None)

    @staticmethod
    def of(name: str, array: NDArray[Any], result: Result, points: NDArray[np.int64] | None) -> _Errors:
        shape = array.shape
        got = array if points is None else array.reshape(-1)[points]
        if not got.size:
            return _Errors.nothing()
        wrong = ~np.asarray(result.accepts(got))
        with np.errstate(all="ignore"):
            expected = result.value.astype(np.float64)
            actual = got.astype(np.float64)
            same = (got == result.value) | (np.isnan(actual) & np.isnan(expected))
            # The bound is about the value before its last rounding, and so is the difference.
            difference = np.where(same, 0.0, np.abs(actual - result.exact.astype(np.float64)))
            difference = np.where(np.isnan(difference), np.inf, difference)
            relative = difference / np.where(expected == 0, 1.0, np.abs(expected))
            excess = np.where(difference == 0, 0.0, difference / np.maximum(result.bound, np.finfo(np.float64).tiny))
        at = int(np.argmax(np.where(wrong, excess, -1.0) if wrong.any() else excess))
        number = at if points is None else int(points[at])
        figures = [float(np.asarray(part).reshape(-1)[at]) for part in (actual, expected, difference, result.bound)]
        finite = np.isfinite(difference) & np.isfinite(result.bound)
        return _Errors(
            compared=got.size,
            wrong=int(wrong.sum()),
            absolute=float(np.max(difference, where=finite | wrong, initial=0.0)),
            relative=float(np.max(relative, where=(finite | wrong) & np.isfinite(expected), initial=0.0)),
            tolerance=float(np.max(result.bound, where=np.isfinite(result.bound), initial=0.0)),
            excess=float(excess.reshape(-1)[at]),
            worst=Worst(name, tuple(int(i) for i in np.unravel_index(number, shape)), *figures),
        )


def _complaints(argument: ArrayArgument, errors: _Errors, got: NDArray[Any], before: NDArray[Any]) -> Iterator[str]:
    dtype = DTYPES[argument.dtype]
    if argument.role == "output" and (errors.wrong or (errors.compared < got.size and _is_telling(dtype))):
        pattern = bits(before[:1])
        unwritten = np.flatnonzero(bits(got).reshape(-1) == pattern) if pattern.size else pattern
        if unwritten.size and _is_poison(before, dtype):
            first = ", ".join(str(int(i)) for i in np.unravel_index(int(unwritten[0]), got.shape))
            yield f"{argument.name}: {unwritten.size} of {got.size} elements were not written, the first at [{first}]"
    if errors.wrong:
        yield f"{argument.name}: {errors.wrong} of {errors.compared} elements differ; the worst: {errors.worst}"


def _fault_text(fault: Fault) -> str:
    place = f" (line {fault.line})" if fault.line else ""
    return f"{fault.kind}: {fault.message}{place}"


def _is_telling(dtype: DType) -> bool:
    """Whether no computation yields the poison of this type, but by a chance of one in four billion."""
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
        yield f"{argument.name}: {outside.sum()} elements in the gaps of its pitch were written, the first at {first}"
