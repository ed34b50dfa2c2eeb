"""What statements cost in launches of their own, by the peak rates of a device."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from cugen.machine import Device, default_device
from cugen.machine.devices import PLANNING_DEVICE
from cugen.plan.context import Context, make_context
from cugen.rewrite.stored.gathered_matrices import AllMatrices
from cugen.rewrite.sums.grouped_sums import operand_types
from cugen.rewrite.temporaries import MAX_OPERAND_BYTES, storing_seconds
from cugen.spec.expressions import bound_indices
from cugen.spec.model import Spec, Statement

_MIN_GAIN = 2  # of products with all matrices, at peak rates, which no GEMM reaches (heuristic)


def device_of(spec: Spec) -> Device:
    return default_device(spec.target) or PLANNING_DEVICE


def seconds(spec: Spec) -> float:
    """The time of the launches of all statements, of which each but the last stores a temporary: multiply-adds at the
    peak of the types that are multiplied, and the traffic of temporaries."""
    context, device = make_context(spec), device_of(spec)
    total, peaks = 0.0, dict(device.peaks)
    for statement in spec.statements:
        if types := operand_types(statement, spec):
            widest = max(types, key=lambda dtype: dtype.bits).name.split("_")[0]
            total += 2 * _terms(statement, context) / peaks.get(f"tensor_{widest}", peaks["float32"])
        array = spec.array(statement.target)
        if array.is_temporary:
            elements = prod(context.planned_extent(index) for index in statement.indices)
            total += storing_seconds(elements * array.dtype.bytes, device)
    return total


def _terms(statement: Statement, context: Context) -> int:
    """The terms of all results of a statement."""
    return prod(map(context.planned_extent, dict.fromkeys((*statement.indices, *bound_indices(statement.value)))))


def pays_for_all_matrices(statement: Statement, steps: AllMatrices, spec: Spec) -> bool:
    """Whether products with all matrices take less time than those of rows with the matrix that each gathers, of which
    every element is read for one multiply-add."""
    arrays = (*spec.arrays, *(stored.array for stored in steps.stored))
    staged = replace(spec, arrays=arrays, statements=tuple(stored.statement for stored in steps.stored))
    context, device = make_context(staged), device_of(spec)
    stored_bytes = (prod(map(context.planned, context.arrays[s.array.name].shape)) for s in steps.stored)
    if max(stored_bytes) * max(s.array.dtype.bytes for s in steps.stored) > MAX_OPERAND_BYTES:
        return False
    matrices = [context.arrays[name] for name in steps.gathered]
    matrix_bytes = sum(prod(map(context.planned, matrix.shape)) * matrix.dtype.bytes for matrix in matrices)
    terms, element_bytes = _terms(statement, context), max(matrix.dtype.bytes for matrix in matrices)
    rate = device.l2_bandwidth or device.bandwidth
    gathered = max(2 * terms / device.peak(), terms * element_bytes / rate)
    return _MIN_GAIN * (seconds(staged) + matrix_bytes / device.bandwidth) <= gathered
