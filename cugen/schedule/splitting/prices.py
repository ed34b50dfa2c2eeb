"""What statements cost in launches of their own, by the peak rates of a device."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from cugen.machine import Device, target
from cugen.machine.bandwidth import L2_TO_DRAM_BANDWIDTH
from cugen.machine.devices import modelled_device
from cugen.machine.requests.warp import WARP_SIZE
from cugen.plan.context import Context, make_context
from cugen.plan.lowering.instructions import is_integer_power, issue_slots, operation_instructions
from cugen.rewrite.stored.gathered_matrices import AllMatrices
from cugen.rewrite.sums.grouped_sums import operand_types
from cugen.rewrite.temporaries import MAX_OPERAND_BYTES, MAX_TEMPORARY_BYTES, Temporary, storing_seconds
from cugen.spec.expressions import Const, Expr, Op, Read, Reduce, bound_indices, free_indices, walk
from cugen.spec.model import Spec, Statement
from cugen.spec.rewriting import replaced

_MIN_GAIN_OF_TABLES = 1.5  # by instructions that are rounded (heuristic)
_MIN_GAIN = 2  # of products with all matrices, at peak rates, which no GEMM reaches (heuristic)


def seconds(spec: Spec) -> float:
    """The time of the launches of all statements, of which each but the last stores a temporary: multiply-adds at the
    peak of the types that are multiplied, and the traffic of temporaries."""
    context, device = make_context(spec), modelled_device(spec.target)
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


def _bytes_of(array: str, context: Context) -> int:
    """The bytes of an array at the sizes that are planned for."""
    stored = context.arrays[array]
    return prod(map(context.planned, stored.shape)) * stored.dtype.bytes


def pays_for_all_matrices(statement: Statement, steps: AllMatrices, spec: Spec) -> bool:
    """Whether products with all matrices take less time than those of rows with the matrix that each gathers, of which
    every element is read for one multiply-add."""
    arrays = (*spec.arrays, *(stored.array for stored in steps.stored))
    staged = replace(spec, arrays=arrays, statements=tuple(stored.statement for stored in steps.stored))
    context, device = make_context(staged), modelled_device(spec.target)
    if any(_bytes_of(stored.array.name, context) > MAX_OPERAND_BYTES for stored in steps.stored):
        return False
    matrix_bytes = sum(_bytes_of(name, context) for name in steps.gathered)
    element_bytes = max(context.arrays[name].dtype.bytes for name in steps.gathered)
    terms = _terms(statement, context)
    rate = device.l2_bandwidth or device.bandwidth
    gathered = max(2 * terms / device.peak(), terms * element_bytes / rate)
    return _MIN_GAIN * (seconds(staged) + matrix_bytes / device.bandwidth) <= gathered


def pays_for_tables(whole: Statement, with_tables: Statement, tables: tuple[Temporary, ...], spec: Spec) -> bool:
    """Whether reading functions of few indices from tables takes less time than computing them for each output, by
    instructions, and by the bytes of arrays and tables."""
    context = make_context(replace(spec, arrays=(*spec.arrays, *(table.array for table in tables))))
    device, terms = modelled_device(spec.target), _terms(whole, context)
    limit = max(MAX_TEMPORARY_BYTES, _bytes_of(whole.target, context))
    if any(_bytes_of(table.array.name, context) > limit for table in tables):
        return False
    results = prod(map(context.planned_extent, whole.indices))
    fastest = free_indices(whole.subscripts[-1]) if whole.subscripts else frozenset()

    def read_bytes(table: Temporary) -> float:
        """Of one value: a warp reads the same one where it doesn't depend on the fastest index."""
        is_uniform = fastest.isdisjoint(index.name for index in table.statement.indices)
        return table.array.dtype.bytes / (WARP_SIZE if is_uniform else 1)

    def launch_seconds(statement: Statement) -> float:
        """Of one launch; its threads read each table's values from the L2."""
        names = {node.array for node in walk(statement.value) if isinstance(node, Read)}
        moved = sum(_bytes_of(name, context) for name in names) + results * spec.array(statement.target).dtype.bytes
        read = terms * sum(read_bytes(table) for table in tables if table.array.name in names)
        l2_bandwidth = device.l2_bandwidth or device.bandwidth * L2_TO_DRAM_BANDWIDTH
        sums: dict[Expr, Expr] = {n: Const(0, n.dtype) for n in walk(statement.value) if isinstance(n, Reduce)}
        once = _issue_slots(replaced(statement.value, sums.get), device)  # beside the terms of reductions
        slots = results * once + terms * (_issue_slots(statement.value, device) - once)
        return max(slots / (device.peak() / 2), moved / device.bandwidth, read / l2_bandwidth)

    stored = 0.0
    for table in tables:
        slots = _terms(table.statement, context) * _issue_slots(table.statement.value, device)
        stored += slots / (device.peak() / 2) + storing_seconds(_bytes_of(table.array.name, context), device)
    return _MIN_GAIN_OF_TABLES * (launch_seconds(with_tables) + stored) <= launch_seconds(whole)


def _issue_slots(value: Expr, device: Device) -> float:
    """Issue slots of a value, relative to a float32 FMA. What occurs twice, or is of constants, is free. An operation
    on integers but for a power counts as one: most are of subscripts, which compilers strength-reduce."""
    total, row = 0.0, target(device.target)
    for node in dict.fromkeys(node for node in walk(value) if isinstance(node, Op)):
        if all(isinstance(part, Const | Op) for part in walk(node)):
            continue
        if node.dtype.is_float:
            total += operation_instructions(node, row) * issue_slots(node.dtype, device)
        else:
            total += operation_instructions(node, row) if is_integer_power(node) else 1
    return total
