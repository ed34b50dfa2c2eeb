"""Operands of the inline PTX of `wgmma`, for its function's template."""

from __future__ import annotations

from typing import Any

from cugen.machine.wgmma import WgmmaInstruction

_REGISTERS_PER_LINE, _ACCUMULATORS_PER_LINE = 16, 4


def wgmma_variables(instruction: WgmmaInstruction, n: int) -> dict[str, Any]:
    """Template variables of an instruction with `n` columns: of each 8 columns a lane's accumulators are two in `upper`
    and two in `lower`."""
    count = n // 2
    sums = (f"{half}[{2 * j + c}]" for j in range(count // 4) for half in ("upper", "lower") for c in (0, 1))
    constraint = "r" if instruction.is_integer else "f"
    accumulators = [f'"+{constraint}"({element})' for element in sums]
    registers = [f"%{i}" for i in range(count)]
    operands = [f"%{count}", f"%{count + 1}", "accumulates"]
    operands += [] if instruction.is_integer else ["1", "1"]  # factors of A and B
    operands += [f"%{count + 3}", f"%{count + 4}"] if instruction.may_be_mn_major else []
    a, _, b = instruction.types.partition("_")
    return {
        "name": instruction.name(n),
        "n": n,
        "k": instruction.k,
        "types": f"{'s32' if instruction.is_integer else 'f32'}.{a}.{b or a}",
        "Sum": "int" if instruction.is_integer else "float",
        "is_transposable": instruction.may_be_mn_major,
        "predicate": f"%{count + 2}",
        "registers": _lines(registers, _REGISTERS_PER_LINE, "}, "),
        "operands": ", ".join(operands),
        "accumulators": _lines(accumulators, _ACCUMULATORS_PER_LINE, ""),
    }


def _lines(items: list[str], per_line: int, end: str) -> list[str]:
    """The items with commas between them, so many to a line."""
    lines = [", ".join(items[start : start + per_line]) for start in range(0, len(items), per_line)]
    separator = ", " if end else ","
    return [*(f"{line}{separator}" for line in lines[:-1]), f"{lines[-1]}{end}"]
