"""Which branches of a machine program depend on data: on what was loaded from memory other than constants.

A forward data-flow analysis over the basic blocks: a register or predicate depends on data if a source of an
instruction that writes it does. Calls are taken to return such values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from cugen.compiled.branches import divergent_branches
from cugen.compiled.sass import Instruction, Program

_NAME = re.compile(r"!?\b(U?[RP])(\d+)\b")
_LOADS = ("LDG", "LDS", "LDL", "LD", "LDSM", "ATOM", "ATOMG", "ATOMS", "SHFL", "VOTE", "MATCH", "TLD", "SYNCS")
_NO_RESULT = ("ST", "STG", "STS", "STL", "RED", "BRA", "EXIT", "RET", "BAR", "BSSY", "BSYNC", "LDGSTS", "NOP", "CALL")
_MAX_REGISTERS = 8  # that one instruction writes


def data_dependent_branches(program: Program) -> Iterator[Instruction]:
    """The branches at which lanes may part because of data."""
    before = _dependent(program)
    branches = set(divergent_branches(program))
    for start, instructions in _blocks(program).items():
        state = set(before[start])
        for instruction in instructions:
            if instruction in branches and (_reads(instruction) & state or instruction.name == "BRX"):
                yield instruction
            _apply(instruction, state)


def _dependent(program: Program) -> dict[int, set[str]]:
    """The names that depend on data at the begin of each block."""
    blocks = _blocks(program)
    before: dict[int, set[str]] = {start: set() for start in blocks}
    waiting = list(blocks)
    while waiting:
        start = waiting.pop()
        state = set(before[start])
        for instruction in blocks[start]:
            _apply(instruction, state)
        for block in program.next_blocks(start):
            if not state <= before[block]:
                before[block] |= state
                waiting.append(block)
    return before


def _blocks(program: Program) -> dict[int, list[Instruction]]:
    blocks: dict[int, list[Instruction]] = {start: [] for start in program.block_starts}
    for instruction in program.instructions:
        blocks[program.block_of(instruction)].append(instruction)
    return blocks


def _apply(instruction: Instruction, state: set[str]) -> None:
    results = _results(instruction)
    if instruction.name in _LOADS or _reads(instruction) & state:
        state |= results
    elif not instruction.predicate:
        state -= results


def _results(instruction: Instruction) -> set[str]:
    """What an instruction writes: its first operand, with the registers of its width, and leading predicates."""
    if instruction.name in _NO_RESULT or not instruction.operands:
        return set()
    results: set[str] = set()
    for number, operand in enumerate(instruction.operands[:3]):
        name = _NAME.fullmatch(operand.removesuffix(".reuse"))
        if name is None:
            break
        is_predicate = name[1].endswith("P")
        if number and not (is_predicate and _leads(instruction, number)):
            break
        count = 1 if is_predicate else _width(instruction)
        results |= {f"{name[1]}{int(name[2]) + n}" for n in range(count)}
    return results


def _leads(instruction: Instruction, number: int) -> bool:
    """Whether an operand is one of the predicates that an instruction writes: `ISETP P0, P1, …`, `IADD3 R0, P0, …`."""
    if instruction.name in ("ISETP", "FSETP", "DSETP", "HSETP2", "PLOP3", "LOP3", "UISETP", "UPLOP3", "PSETP"):
        return number == 1
    return instruction.name in ("IADD3", "UIADD3", "SHFL", "FCHK", "MUFU", "IMNMX", "VIADDMNMX")


def _width(instruction: Instruction) -> int:
    """Registers that an instruction may write, at most."""
    if instruction.name in _LOADS or instruction.name in ("LDC", "ULDC"):
        return max(1, instruction.bytes // 4)
    if instruction.name.startswith(("HMMA", "IMMA", "DMMA", "HGMMA", "QMMA")):
        return _MAX_REGISTERS
    is_wide = instruction.name.startswith("D") or any(
        suffix in ("WIDE", "64", "F64", "S64", "U64", "U32") for suffix in instruction.opcode.split(".")[1:]
    )
    return 2 if is_wide and instruction.name not in ("ISETP", "ISET", "LEA", "SHF") else 1


def _reads(instruction: Instruction) -> set[str]:
    results = 0 if instruction.name in _NO_RESULT else 1
    texts = [instruction.predicate, *instruction.operands[results:]]
    return {f"{kind}{number}" for text in texts for kind, number in _NAME.findall(text)}
