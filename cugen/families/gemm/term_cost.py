"""Issue slots and registers of a term and its accumulation on CUDA cores: of a product one FMA, of others more.

Instructions are those that nvcc 13 gives for sm_90. Of what takes a whole function they are rounded: a division is 14,
most functions about 10 to 40.
"""

from __future__ import annotations

from collections.abc import Iterator

from cugen.machine import Device, Target
from cugen.machine.functions import FUNCTION_INSTRUCTIONS
from cugen.spec.expressions import Const, Expr, Op, Read, Reduce, Select, children
from cugen.spec.floats.powers import Power, literal_power
from cugen.spec.types import DType, Kind

# Cost of one multiply-add in issue slots of a float32 FMA (heuristic: no device table has these rates).
_FLOAT64_COST = 32.0
_INT32_COST, _INT64_COST = 2.0, 6.0
_MODIFIERS = ("neg", "abs")  # of an operand, not an instruction
_EXTREMA = ("maximum", "minimum")
_EXTREMUM_INSTRUCTIONS = 3  # that propagates NaN, where the target has no instruction for it
_EXTREMUM_CAPABILITY = (8, 0)  # from which on float32 has it (PTX ISA: min.NaN)
_TERM_REGISTERS = 12  # of terms that are computed before they are accumulated, at a time (nvcc 13, squared differences)
_CALL_REGISTERS = 32  # more, of the arguments and results of functions that nvcc 13 calls
_CALLED_INSTRUCTIONS = 14  # of a function, from which on it may be called


def fma_cost(dtype: DType, device: Device) -> float:
    """Issue slots of an instruction of a term on CUDA cores, relative to a float32 FMA."""
    if dtype.kind is Kind.FLOAT and dtype.bytes == 8:
        rates = dict(device.peaks)
        return rates["float32"] / rates["float64"] if "float64" in rates else _FLOAT64_COST
    if dtype.kind is Kind.FLOAT:
        return 1.0
    return _INT32_COST if dtype.bytes <= 4 else _INT64_COST


def term_instructions(reductions: tuple[Reduce, ...], target: Target) -> float:
    """Instructions of a term and its accumulation: the mean of several reductions."""
    return sum(_instructions(reduction, target) for reduction in reductions) / len(reductions)


def term_registers(reductions: tuple[Reduce, ...], target: Target) -> int:
    """Registers of terms that aren't accumulated by the instruction that computes them."""
    if all(_instructions(reduction, target) == 1 for reduction in reductions):
        return 0
    operations = (node for reduction in reductions for node in _operations(reduction.body))
    is_called = any(_instructions_of(node, target) >= _CALLED_INSTRUCTIONS for node in operations)
    return _TERM_REGISTERS + (_CALL_REGISTERS if is_called else 0)


def _instructions(reduction: Reduce, target: Target) -> int:
    """The instructions of one term and its accumulation: one for a product, two for a squared difference."""
    body, kind = reduction.body, reduction.kind
    is_fused = kind == "sum" and _is_product(body)
    accumulation = 0 if is_fused else 1 if kind == "sum" else _extremum(reduction.dtype, target)
    operations = dict.fromkeys(_operations(body))  # what occurs twice is computed once
    return max(sum(_instructions_of(node, target) for node in operations) + accumulation, 1)


def _operations(expr: Expr) -> Iterator[Op | Select]:
    """The operations on elements, without those of subscripts: copies compute addresses."""
    if isinstance(expr, Op | Select):
        yield expr
    if not isinstance(expr, Read):
        for child in children(expr):
            yield from _operations(child)


def _instructions_of(node: Op | Select, target: Target) -> int:
    match node:
        case Op(name=name) if name in _MODIFIERS:
            return 0
        case Op(name="pow", args=(_, Const(value=1))):  # is left out
            return 0
        case Op() if (power := _literal_power(node)) is not None:
            return _multiplications(power) + _factor_instructions(power)
        case Op(name=name, dtype=dtype) if name in _EXTREMA:
            return _extremum(dtype, target)
        case Op(name=name):
            return FUNCTION_INSTRUCTIONS.get(name, 1)
    return 1


def _is_product(expr: Expr) -> bool:
    """Whether the last operation is a multiplication, which an FMA adds as well."""
    if not isinstance(expr, Op):
        return False
    power = _literal_power(expr)
    return expr.name == "mul" or (power is not None and _multiplications(power) > 0)


def _literal_power(op: Op) -> Power | None:
    """The power that is computed without a function for any exponent."""
    match op:
        case Op(name="pow", args=(_, Const(value=exponent)), dtype=dtype) if dtype.is_float or exponent > 0:
            return literal_power(exponent)
    return None


def _multiplications(power: Power) -> int:
    """By squaring, and by a root."""
    by_squaring = power.whole.bit_length() + power.whole.bit_count() - 2 if power.whole else 0
    return by_squaring + (power.has_root and power.whole > 0)


def _factor_instructions(power: Power) -> int:
    """Instructions of a root and a quotient."""
    root = FUNCTION_INSTRUCTIONS["rsqrt" if power.is_inverse else "sqrt"] if power.has_root else 0
    return root + (FUNCTION_INSTRUCTIONS["div"] if power.is_inverse and power.whole else 0)


def _extremum(dtype: DType, target: Target) -> int:
    has_instruction = dtype.is_integer or (dtype.bytes == 4 and target.capability >= _EXTREMUM_CAPABILITY)
    return 1 if has_instruction else _EXTREMUM_INSTRUCTIONS
