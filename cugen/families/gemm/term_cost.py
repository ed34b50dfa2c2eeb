"""Instructions and registers of a term and its accumulation on CUDA cores: of a product one FMA, of others more."""

from __future__ import annotations

from collections.abc import Iterator

from cugen.machine import Target
from cugen.plan.lowering.instructions import extremum_instructions, is_product, operation_instructions
from cugen.spec.expressions import Expr, Op, Read, Reduce, Select, children

_TERM_REGISTERS = 12  # of terms that are computed before they are accumulated, at a time (nvcc 13, squared differences)
_CALL_REGISTERS = 32  # more, of the arguments and results of functions that nvcc 13 calls
_CALLED_INSTRUCTIONS = 14  # of a function, from which on it may be called


def term_instructions(reductions: tuple[Reduce, ...], target: Target) -> float:
    """Instructions of a term and its accumulation: the mean of several reductions."""
    return sum(_instructions(reduction, target) for reduction in reductions) / len(reductions)


def term_registers(reductions: tuple[Reduce, ...], target: Target) -> int:
    """Registers of terms that aren't accumulated by the instruction that computes them."""
    if all(_instructions(reduction, target) == 1 for reduction in reductions):
        return 0
    operations = (node for reduction in reductions for node in _operations(reduction.body))
    is_called = any(operation_instructions(node, target) >= _CALLED_INSTRUCTIONS for node in operations)
    return _TERM_REGISTERS + (_CALL_REGISTERS if is_called else 0)


def _instructions(reduction: Reduce, target: Target) -> int:
    """The instructions of one term and its accumulation: one for a product, two for a squared difference."""
    body, kind = reduction.body, reduction.kind
    is_fused = kind == "sum" and isinstance(body, Op) and is_product(body)
    accumulation = 0 if is_fused else 1 if kind == "sum" else extremum_instructions(reduction.dtype, target)
    operations = dict.fromkeys(_operations(body))  # what occurs twice is computed once
    return max(sum(operation_instructions(node, target) for node in operations) + accumulation, 1)


def _operations(expr: Expr) -> Iterator[Op | Select]:
    """The operations on elements, without those of subscripts: copies compute addresses."""
    if isinstance(expr, Op | Select):
        yield expr
    if not isinstance(expr, Read):
        for child in children(expr):
            yield from _operations(child)
