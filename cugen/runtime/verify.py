"""Verification of a kernel: a run on random numbers against the reference's error bounds, and a run on small integers,
for which every order of summation is exact."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cugen.abi.codes import GATHER_OUTSIDE
from cugen.abi.errors import RunError
from cugen.abi.manifest import ArrayArgument, Manifest
from cugen.reference.contents import OutsideError
from cugen.reference.cost import cost
from cugen.reference.evaluate import evaluate
from cugen.reference.result import Result
from cugen.runtime.buffers import pack, view
from cugen.runtime.compare import Points, Verification, compare
from cugen.runtime.device import Device, Job, Outcome
from cugen.runtime.inputs import Inputs, draw, known_params, shape_of
from cugen.spec.model import Spec

MAX_REFERENCE_OPERATIONS = 5e8  # some seconds; beyond it a sample of elements is compared
SAMPLED_ELEMENTS = 4096  # of each output
_MAGNITUDES = (3, 1)  # of the small integers; larger ones are less likely to be equal by chance
_PROBED_ELEMENTS = 64  # of each output, before the whole is evaluated


@dataclass(frozen=True)
class Run:
    """A verified run; `outputs` are logical arrays."""

    verification: Verification
    outcome: Outcome
    outputs: Mapping[str, NDArray[Any]]


def make_job(
    source: str, manifest: Manifest, inputs: Inputs, params: Mapping[str, int], *, variant: int = 0, repeat: int = 1
) -> Job:
    """A job with new buffers, outputs and padding poisoned. `params` holds the dynamic ones."""
    known = {**manifest.params, **params}
    buffers = {
        argument.name: pack(inputs.arrays.get(argument.name), argument, known, variant)
        for argument in manifest.arguments
        if isinstance(argument, ArrayArgument)
    }
    return Job(source, manifest, buffers, dict(params), dict(inputs.scalars), repeat)


def outputs_of(job: Job, outcome: Outcome) -> dict[str, NDArray[Any]]:
    """Copies of the outputs and inouts that the device returned, as logical arrays."""
    known = {**job.manifest.params, **job.params}
    return {
        argument.name: view(outcome.buffers[argument.name], argument, known).copy()
        for argument in job.manifest.arguments
        if isinstance(argument, ArrayArgument) and argument.role != "input" and argument.name in outcome.buffers
    }


def verify(
    spec: Spec,
    source: str,
    manifest: Manifest,
    device: Device,
    *,
    params: Mapping[str, int] | None = None,
    inputs: Inputs | None = None,
    seed: int = 0,
    repeat: int = 1,
) -> Run:
    """Runs the kernel and compares its outputs with the reference. `params` gives the dynamic ones.

    Without `inputs` a run on random numbers is followed by one on small integers, if the reference is exact for them.
    Large problems compare a random sample of elements, corners included. RunError (CG5015) where an element used as a
    subscript is out of bounds.
    """
    dynamic = dict(params or {})
    known = known_params(spec, dynamic)
    points = sample(spec, known, seed) if cost(spec, dynamic) > MAX_REFERENCE_OPERATIONS else None
    given = inputs or draw(spec, known, seed)
    expected = _expected(spec, given, dynamic, points)
    job = make_job(source, manifest, given, dynamic, repeat=repeat)
    outcome = device.run(job)
    verification = compare(job, outcome, expected, points)
    if inputs is None and verification.passed:
        verification = _with_integers(spec, source, manifest, device, dynamic, points, seed, verification)
    return Run(verification, outcome, outputs_of(job, outcome))


def sample(spec: Spec, params: Mapping[str, int], seed: int) -> dict[str, NDArray[np.int64]]:
    """Row-major indices of random elements and all corners of each output."""
    source = np.random.default_rng([seed, SAMPLED_ELEMENTS])
    numbers = {}
    for array in spec.arrays:
        if array.role not in ("output", "inout"):
            continue
        shape = shape_of(array, params)
        if 0 in shape:
            numbers[array.name] = np.zeros(0, np.int64)
            continue
        ends = [np.unique([0, extent - 1]) for extent in shape]
        grid = np.meshgrid(*ends, indexing="ij")
        corners = np.ravel_multi_index([axis.ravel() for axis in grid], shape) if shape else np.zeros(1, np.int64)
        drawn = source.integers(0, math.prod(shape), SAMPLED_ELEMENTS)
        numbers[array.name] = np.unique(np.concatenate([np.atleast_1d(corners), drawn])).astype(np.int64)
    return numbers


def _expected(spec: Spec, inputs: Inputs, dynamic: Mapping[str, int], points: Points | None) -> dict[str, Result]:
    try:
        return evaluate(spec, inputs.arrays, params=dynamic, scalars=inputs.scalars, points=points)
    except OutsideError as error:
        raise RunError(
            GATHER_OUTSIDE, str(error), "correct the subscripts, or add a `boundary` to the array"
        ) from error


def _with_integers(
    spec: Spec,
    source: str,
    manifest: Manifest,
    device: Device,
    dynamic: Mapping[str, int],
    points: Points | None,
    seed: int,
    first: Verification,
) -> Verification:
    known = known_params(spec, dynamic)
    probe = {name: numbers[:_PROBED_ELEMENTS] for name, numbers in (points or sample(spec, known, seed)).items()}
    for magnitude in _MAGNITUDES:
        inputs = draw(spec, known, seed + 1, exact_up_to=magnitude)
        if not _all_exact(_expected(spec, inputs, dynamic, probe)):
            continue
        expected = _expected(spec, inputs, dynamic, points)
        if not _all_exact(expected):
            continue
        # The other poison pattern: an unwritten element can't be right in both runs.
        job = make_job(source, manifest, inputs, dynamic, variant=1)
        second = compare(job, device.run(job), expected, points)
        if not second.passed:
            return replace(second, messages=tuple(f"on small integers: {message}" for message in second.messages))
        return first
    return first


def _all_exact(results: Mapping[str, Result]) -> bool:
    return all(result.exactly_representable for result in results.values())
