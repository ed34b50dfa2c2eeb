"""Instructions of an operation as it is lowered, and issue slots of one of a type.

The figures are those of nvcc 13 for sm_90; of what takes a whole function they are rounded: a division is 14, most
functions about 10 to 40.
"""

from __future__ import annotations

import math

from cugen.machine import Device, Target
from cugen.machine.functions import (
    EXTREMUM_CAPABILITY,
    EXTREMUM_INSTRUCTIONS,
    FUNCTION_INSTRUCTIONS,
    INTEGER_POWER_INSTRUCTIONS,
    STRAIGHT_FUNCTIONS,
)
from cugen.spec.expressions import Const, Expr, Op, Select
from cugen.spec.floats.powers import Power, literal_power
from cugen.spec.types import DType, Kind

# Issue slots of an instruction relative to a float32 FMA (heuristic: no device table has these rates).
_FLOAT64_SLOTS = 32.0
_INT32_SLOTS, _INT64_SLOTS = 2.0, 6.0
_MODIFIERS = ("neg", "abs")  # of an operand, not an instruction
_EXTREMA = ("maximum", "minimum")


def issue_slots(dtype: DType, device: Device) -> float:
    """Issue slots of an instruction on CUDA cores, relative to a float32 FMA."""
    if dtype.kind is Kind.FLOAT and dtype.bytes == 8:
        rates = dict(device.peaks)
        return rates["float32"] / rates["float64"] if "float64" in rates else _FLOAT64_SLOTS
    if dtype.kind is Kind.FLOAT:
        return 1.0
    return _INT32_SLOTS if dtype.bytes <= 4 else _INT64_SLOTS


def operation_instructions(node: Op | Select, target: Target) -> int:
    """Instructions of one operation, without those of its operands."""
    match node:
        case Op(name=name) if name in _MODIFIERS:
            return 0
        case Op(name="pow", args=(_, Const(value=1))):  # is left out
            return 0
        case Op() if (power := _literal_power(node)) is not None:
            return _multiplications(power) + _factor_instructions(power)
        case Op() if is_integer_power(node):
            return INTEGER_POWER_INSTRUCTIONS
        case Op(name=name, dtype=dtype) if name in _EXTREMA:
            return extremum_instructions(dtype, target)
        case Op(name=name):
            return FUNCTION_INSTRUCTIONS.get(name, 1)
    return 1


def is_integer_power(node: Expr) -> bool:
    """Whether a node is a power of integers that a loop computes, for an exponent that isn't a constant."""
    match node:
        case Op(name="pow", args=(_, exponent), dtype=dtype):
            return dtype.is_integer and not isinstance(exponent, Const)
    return False


def has_branch(node: Op) -> bool:
    """Whether the code of a function of floats branches on special operands: the instructions of others don't mix with
    its own, and hide none of their latency."""
    power = _literal_power(node)
    match node:
        case Op(dtype=dtype) if not dtype.is_float:
            return False
        case Op() if power is not None:
            root = "rsqrt" if power.is_inverse else "sqrt"
            names = (*((root,) if power.has_root else ()), *(("div",) if power.is_inverse and power.whole else ()))
        case Op(name="div", args=(_, Const(value=divisor))) if divisor and abs(math.frexp(divisor)[0]) == 0.5:
            return False  # a multiplication
        case Op(name=name):
            names = (name,) if name in FUNCTION_INSTRUCTIONS else ()
    return any(name not in STRAIGHT_FUNCTIONS[node.dtype.compute.name] for name in names)


def extremum_instructions(dtype: DType, target: Target) -> int:
    """Instructions of a maximum or minimum of two elements, which is NaN where one of them is."""
    has_instruction = dtype.is_integer or (dtype.bytes == 4 and target.capability >= EXTREMUM_CAPABILITY)
    return 1 if has_instruction else EXTREMUM_INSTRUCTIONS


def is_product(node: Op) -> bool:
    """Whether the last instruction of an operation is a multiplication, which an FMA adds as well."""
    power = _literal_power(node)
    return node.name == "mul" or (power is not None and _multiplications(power) > 0)


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
