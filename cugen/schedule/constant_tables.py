"""Baked tables that go to constant memory unasked: small ones, of which each warp reads one address at a time.

Only baked ones: a table that the caller passes would be copied to its symbol before each launch.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from cugen.machine import target
from cugen.plan.context import Context
from cugen.plan.kernel import Plan
from cugen.plan.memory import Array
from cugen.plan.symbols import bounds
from cugen.plan.traversal import usage
from cugen.plan.traversal.walking import accesses


def candidates(plan: Plan) -> frozenset[str]:
    """The tables that a kernel reads and no placement is given for, as far as all constants fit the first level of the
    constant cache."""
    context = plan.context
    used = {array.symbol for kernel in plan.kernels for array in usage.arrays(kernel.body)}
    constants = [array for array in context.constants if array.space == "constant"]
    scalars = [scalar.dtype.bytes for scalar in context.spec.scalars if scalar.constant]
    free = target(context.spec.target).constant_first_level_bytes
    free -= sum(scalars) + sum(_bytes(array, context) for array in constants)
    names = set()
    for array in context.constants:
        is_unplaced = array.space == "table" and context.spec.array(array.name).memory.space is None
        if is_unplaced and array.symbol in used and _bytes(array, context) <= free:
            names.add(array.name)
            free -= _bytes(array, context)
    return frozenset(names)


def with_constant_tables(context: Context, names: Collection[str]) -> Context:
    """The context with these baked tables in constant memory."""

    def placed(array: Array) -> Array:
        return replace(array, space="constant") if array.name in names else array

    arrays = {name: placed(array) for name, array in context.arrays.items()}
    return replace(context, arrays=arrays, constants=tuple(map(placed, context.constants)))


def uniformly_read(plan: Plan, names: Collection[str]) -> frozenset[str]:
    """Those of the tables in constant memory that the analysis proves to take one request for each load of a warp."""
    from cugen.analysis.verdicts.comments import reports_of  # only where there are such tables

    read = {a.array.name for kernel in plan.kernels for a in accesses(kernel.body) if a.array.space == "constant"}
    reports = reports_of(plan.context, plan, space="constant")
    costly = {a.access.array.name for report in reports for a in report.accesses if a.verdict != "ideal"}
    return frozenset(names) & read - costly


def _bytes(array: Array, context: Context) -> int:
    return bounds(context.elements_of(array), context.ranges)[1] * array.dtype.bytes
