"""Verification of a kernel at the size that is timed, without copying all arrays to the host: a sample of the output
elements against the reference, and on the device all canaries, pitch padding and inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cugen.bench.buffers import ArrayBuffer, Buffers
from cugen.bench.session import Session
from cugen.reference.cost import cost, cost_at, requested_indices, statement_cost
from cugen.reference.evaluate import evaluate
from cugen.reference.result import Result
from cugen.reference.storage import Values, numpy_dtype
from cugen.runtime.buffers import CANARY, CANARY_BYTES, bits, poison
from cugen.runtime.device import Device
from cugen.runtime.verify import verify
from cugen.spec.model import Spec
from cugen.spec.types import DType

if TYPE_CHECKING:
    from cugen.kernel import Kernel

SAMPLE = 2048  # elements compared per output, fewer if the reference is expensive
_COUNTS = tuple(1 << bit for bit in range(SAMPLE.bit_length()))  # of elements, up to so many
_MAX_REFERENCE_OPERATIONS = 2e7  # one or two seconds of NumPy (heuristic)
_SMALL_BYTES, _SMALL_COST = 64e6, 3e7


@dataclass(frozen=True)
class Check:
    """Result of a verification. `max_abs_error`: of the compared elements. `tolerance`: their maximum rounding
    error."""

    passed: bool
    checked: str
    max_abs_error: float
    tolerance: float
    messages: tuple[str, ...]


def check_as_run(
    kernel: Kernel, device: Device, buffers: Buffers, dynamic: Mapping[str, int], seed: int
) -> Check | None:
    """Verification of all elements as in `cugen run`, for small problems; else None."""
    if buffers.held_bytes > _SMALL_BYTES or cost(kernel.spec, dynamic) > _SMALL_COST:
        return None
    run = verify(kernel.spec, kernel.source, kernel.manifest, device, params=dynamic, seed=seed).verification
    return Check(
        run.passed,
        run.checked,
        run.max_abs_error,
        run.tolerance,
        run.messages,
    )


@dataclass(frozen=True)
class Expected:
    """Expected outputs after one run, at `points`: row-major element indices."""

    points: Mapping[str, NDArray[np.int64]]
    results: Mapping[str, Result]


def inputs_of(session: Session, buffers: Buffers) -> Mapping[str, Values]:
    """The contents of the inputs as logical arrays on the host."""
    return {array.argument.name: _logical(session, buffers, array) for array in _given(buffers)}


def expected(
    inputs: Mapping[str, Values],
    spec: Spec,
    buffers: Buffers,
    dynamic: Mapping[str, int],
    scalars: Mapping[str, int | float | bool],
    seed: int,
) -> Expected:
    """Computes expected outputs with the reference, without the GPU."""
    points = _points(spec, buffers, seed)
    return Expected(points, evaluate(spec, inputs, params=dynamic, scalars=scalars, points=points))


def check(
    session: Session,
    spec: Spec,
    buffers: Buffers,
    dynamic: Mapping[str, int],
    scalars: Mapping[str, int | float | bool],
    seed: int,
) -> Check:
    """Verifies set 0 after one run on its initial contents."""
    return check_against(expected(inputs_of(session, buffers), spec, buffers, dynamic, scalars, seed), session, buffers)


def check_against(known: Expected, session: Session, buffers: Buffers) -> Check:
    """Like `check`, with known expected outputs."""
    messages = [*_damage(session, buffers)]
    worst, tolerance, compared = 0.0, 0.0, 0
    for name, result in known.results.items():
        array = buffers.array_buffer(name)
        got = _elements(session, buffers, array, known.points[name])
        compared += got.size
        error, message = _error(name, got, result, known.points[name], array.shape)
        worst = max(worst, error)
        tolerance = max(tolerance, float(np.max(result.bound, where=np.isfinite(result.bound), initial=0.0)))
        messages += [message] if message else []
    total = sum(math.prod(buffers.array_buffer(name).shape) for name in known.results)
    said = "all" if compared == total else f"sample of {compared}"
    return Check(not messages, said, worst, tolerance, tuple(messages))


def reruns(session: Session, buffers: Buffers, run: Callable[[int], None], times: int) -> tuple[str, ...]:
    """Bitwise differences between a run on set 0 and `times` runs on other sets; empty if reproducible. In-place
    updates aren't compared, since each run continues the previous one."""
    if any(array.argument.role == "inout" for array in buffers.layout):
        return ()
    outputs = [array for array in buffers.layout if array.argument.role == "output"]
    run(0)
    for number in range(times):
        rerun_set = 1 + number % (buffers.count - 1)
        run(rerun_set)
        for array in outputs:
            name = array.argument.name
            if session.count_different(buffers.address(name, 0), buffers.address(name, rerun_set), array.bytes):
                return (f"{name}: run {number + 2} gave other bits than the first",)
    return ()


def _given(buffers: Buffers) -> Iterator[ArrayBuffer]:
    return (array for array in buffers.layout if array.argument.role != "output")


def _damage(session: Session, buffers: Buffers) -> Iterator[str]:
    """Messages for bytes written out of place, and for elements not written."""
    ends = [(array, side) for array in buffers.layout for side in ("before", "behind")]
    for array, side in ends:
        start = buffers.address(array.argument.name)
        address = start - CANARY_BYTES if side == "before" else start + array.bytes
        length = CANARY_BYTES if side == "before" else -(-array.bytes // CANARY_BYTES) * CANARY_BYTES - array.bytes
        length = length if side == "before" else length + CANARY_BYTES
        damaged = length - session.count_equal(address, length, 1, CANARY)
        if damaged:
            yield f"{array.argument.name}: {damaged} bytes {side} it were written"
    for array in buffers.layout:
        name = array.argument.name
        if array.argument.role == "input":
            changed = session.count_different(buffers.address(name, 0), buffers.address(name, 1), array.bytes)
            if changed:
                yield f"{name} is an input and {changed} of its bytes were changed"
        elif array.argument.role == "output" and _is_telling(array.dtype):
            pattern = int(bits(poison(array.dtype, 1))[0])
            left = session.count_equal(buffers.address(name), array.elements, array.dtype.bytes, pattern)
            if left > array.gaps:
                yield f"{name}: {left - array.gaps} elements were not written"
            elif left < array.gaps:
                yield f"{name}: {array.gaps - left} elements in the gaps of its pitch were written"


def _is_telling(dtype: DType) -> bool:
    """Whether results of this type practically never equal the poison pattern."""
    return dtype.is_float and dtype.bits > 8


def _points(spec: Spec, buffers: Buffers, seed: int) -> dict[str, NDArray[np.int64]]:
    """Row-major element indices of each output: the last, the first, and random ones, as many as their cost allows.

    The reference computes each element separately: the last one of a scan of 10⁸ elements takes seconds."""
    source = np.random.default_rng([seed, SAMPLE])
    outputs = [array for array in buffers.layout if array.argument.role != "input"]
    costs = {
        count: _reference_cost(spec, {array.argument.name: count for array in outputs}, buffers) for count in _COUNTS
    }
    limit = max(_MAX_REFERENCE_OPERATIONS, 1.25 * costs[1])  # many points of a sum over everything cost little more
    number = max((count for count, cost in costs.items() if cost <= limit))
    points = {}
    for array in outputs:
        total = math.prod(array.shape)
        drawn = source.integers(0, total, number) if total > number else np.arange(total)
        chosen = np.concatenate([[total - 1, 0], drawn])[:number] if total else drawn
        points[array.argument.name] = np.unique(chosen if total > number else drawn).astype(np.int64)
    return points


def _reference_cost(spec: Spec, points: Mapping[str, int], buffers: Buffers) -> float:
    """Elementary operations of the reference at so many points of the outputs."""
    requested = requested_indices(spec, points, buffers.params)
    return sum(
        min(cost_at(statement, values, buffers.params), statement_cost(statement, buffers.params))
        for statement, values in zip(spec.statements, requested, strict=True)
    )


def _logical(session: Session, buffers: Buffers, array: ArrayBuffer) -> Values:
    """Input as a logical array on the host."""
    dtype = numpy_dtype(array.dtype)
    # Set 1 has the contents of inouts before the run.
    flat = session.fetch(buffers.address(array.argument.name, 1), array.elements, dtype)
    if 0 in array.shape:
        return np.empty(array.shape, dtype)
    raw = flat.view(f"u{dtype.itemsize}")
    steps = tuple(stride * dtype.itemsize for stride in array.strides)
    return np.lib.stride_tricks.as_strided(raw, array.shape, steps).view(dtype)


def _elements(session: Session, buffers: Buffers, array: ArrayBuffer, numbers: NDArray[np.int64]) -> Values:
    """Elements of an output at row-major indices."""
    dtype = numpy_dtype(array.dtype)
    start = buffers.address(array.argument.name)
    if not numbers.size:
        return np.empty(0, dtype)
    coordinates = np.unravel_index(numbers, array.shape) if array.shape else (np.zeros(1, np.int64),)
    strides = array.strides or (0,)
    offsets = sum(coordinate * stride for coordinate, stride in zip(coordinates, strides, strict=True))
    elements = [session.fetch(start + int(offset) * dtype.itemsize, 1, dtype) for offset in np.atleast_1d(offsets)]
    return np.concatenate([x.view(f"u{dtype.itemsize}") for x in elements]).view(dtype)


def _error(
    name: str, got: Values, result: Result, numbers: NDArray[np.int64], shape: tuple[int, ...]
) -> tuple[float, str]:
    """Maximum error of the elements, and a message if one exceeds its tolerance."""
    if not got.size:
        return 0.0, ""
    right = np.asarray(result.accepts(got))
    with np.errstate(all="ignore"):
        difference = np.abs(got.astype(np.float64) - result.exact.astype(np.float64))
    finite = np.isfinite(difference)
    largest = float(np.max(difference, where=finite, initial=0.0))
    if right.all():
        return largest, ""
    wrong = np.flatnonzero(~right)
    first = ", ".join(str(int(i)) for i in np.unravel_index(int(numbers[wrong[0]]), shape)) if shape else ""
    values = f"{float(got[wrong[0]]):.9g}, expected {float(result.value.reshape(-1)[wrong[0]]):.9g}"
    return largest, f"{name}: {wrong.size} of {got.size} elements differ; the first: {name}[{first}] is {values}"
