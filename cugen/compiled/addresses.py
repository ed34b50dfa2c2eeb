"""Address expressions of SASS memory instructions, by symbolic evaluation of integer arithmetic.

A register value is a linear form modulo 2^32: a constant plus multiples of symbols. Of a 64-bit address only the low
word is evaluated, which is enough to identify pointers. Symbols are kernel arguments (`c[0x0][0x210]`), special
registers (`SR_TID.X`) and non-linear results, named after their instruction (`op@1d0`). A control-flow merge of
different values keeps the first one and adds a symbol of the block (`R6@150`), so that an induction variable keeps its
base pointer. If the base pointers differ, the symbol names all of them (`R6@150|c[0x0][0x210]|c[0x0][0x218]`).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cugen.compiled.sass import Instruction, Program

_WORD = 1 << 32  # values of a 32-bit register
_PLAIN = re.compile(r"^(-?)(U?R(?:\d+|Z))(?:\.(?:reuse|64|U32|X(\d+)))*$")
_CONSTANT = re.compile(r"^(-?)(c\[0x[0-9a-f]+\]\[0x[0-9a-f]+\])(?:\.64)?$")
_NUMBER = re.compile(r"^-?(0x[0-9a-f]+|\d+)$")
_BRACKETS = re.compile(r"\[([^\[\]]*)\]$")


@dataclass(frozen=True)
class Form:
    """Linear form `constant + Σ coefficient · symbol` modulo 2^32. `terms` are sorted; no coefficient is 0."""

    constant: int = 0
    terms: tuple[tuple[str, int], ...] = ()

    @staticmethod
    def of(symbol: str) -> Form:
        return Form(0, ((symbol, 1),))

    def plus(self, addend: Form, times: int = 1) -> Form:
        sums = dict(self.terms)
        for name, coefficient in addend.terms:
            sums[name] = (sums.get(name, 0) + coefficient * times) % _WORD
        return Form(
            (self.constant + addend.constant * times) % _WORD, tuple(sorted((s, c) for s, c in sums.items() if c))
        )

    @property
    def symbols(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.terms)

    @property
    def origins(self) -> tuple[str, ...]:
        """Constant-bank words with coefficient 1 on some path. The base pointer is among them."""
        result = [name for name, coefficient in self.terms if coefficient == 1 for name in name.split("|")]
        return tuple(sorted({name for name in result if name.startswith("c[")}))

    @property
    def is_linear(self) -> bool:
        """Whether all symbols are arguments or special registers."""
        return not any("@" in name for name in self.symbols)


State = dict[str, Form]


def address_forms(program: Program, constants: bytes = b"") -> Mapping[int, Form]:
    """Address of each memory instruction, by instruction address.

    `constants` is the compiler-generated constant bank (`c[0x2]`) of targets that have one."""
    return _Flow(program, constants).run()


def source_forms(program: Program, constants: bytes = b"") -> Mapping[int, Form]:
    """Source address of each asynchronous copy, by instruction address; `address_forms` has the target."""
    if not any(i.kind == "async_copy" for i in program.instructions):
        return {}
    result = _Flow(program, constants).run(number=1)
    return {i.address: result[i.address] for i in program.instructions if i.kind == "async_copy"}


class _Flow:
    def __init__(self, program: Program, constants: bytes) -> None:
        self.program, self.constants = program, constants
        starts = program.block_starts
        self.blocks = {
            start: [i for i in program.instructions if start <= i.address < end]
            for start, end in zip(starts, (*starts[1:], 1 << 62), strict=True)
        }
        self.entries: dict[int, State] = {}

    def run(self, number: int = 0) -> dict[int, Form]:
        """Address operand `number` (0 is the first) of each memory instruction."""
        if not self.blocks:
            return {}
        waiting = [min(self.blocks)]
        self.entries[waiting[0]] = {}
        result: dict[int, Form] = {}
        while waiting:
            start = waiting.pop(0)
            state = dict(self.entries[start])
            for instruction in self.blocks[start]:
                if instruction.space:
                    result[instruction.address] = self._address(instruction, state, number)
                self._step(instruction, state)
            for goal in self.program.next_blocks(start):
                if self._merge(goal, state) and goal not in waiting:
                    waiting.append(goal)
            waiting.sort()
        return result

    def _merge(self, goal: int, state: State) -> bool:
        """Merges `state` into the entry state of a block. Returns whether that state changed."""
        if goal not in self.entries:
            self.entries[goal] = dict(state)
            return True
        known = self.entries[goal]
        changed = False
        for register, old in list(known.items()):
            new = state.get(register)
            marker = f"{register}@{goal:x}"
            if new == old:
                continue
            if new is not None and old.origins == new.origins:
                merged = old if marker in old.symbols else old.plus(Form.of(marker))
            else:
                origins = {*old.origins, *(new.origins if new else ())}
                merged = Form.of("|".join((marker, *sorted(origins))))
            if merged != old:
                known[register] = merged
                changed = True
        return changed

    def _address(self, instruction: Instruction, state: State, number: int) -> Form:
        operands = [o for o in instruction.operands if (instruction.space == "constant") == o.startswith("c[")]
        brackets = [match[1] for match in map(_BRACKETS.search, operands) if match]
        total = Form()
        for inside in brackets[number : number + 1]:
            for part in inside.replace("+-", "+ -").split("+"):
                total = total.plus(self._value(part.strip(), state))
        return total

    def _value(self, operand: str, state: State) -> Form:
        if plain := _PLAIN.match(operand):
            sign, register, scale = plain[1], plain[2], int(plain[3] or 1)
            if register.endswith("RZ"):
                return Form()
            value = state.get(register, Form.of(f"{register}@entry"))
            return Form().plus(value, -scale if sign else scale)
        if constant := _CONSTANT.match(operand):
            return Form().plus(self._bank(constant[2]), -1 if constant[1] else 1)
        if _NUMBER.match(operand):
            return Form(int(operand, 0) % _WORD)
        return Form.of(f"({operand})")

    def _bank(self, name: str) -> Form:
        if name.startswith("c[0x2]["):
            offset = int(name[7:-1], 16)
            if offset + 4 <= len(self.constants):
                return Form(struct.unpack_from("<I", self.constants, offset)[0])
        return Form.of(name)

    def _step(self, instruction: Instruction, state: State) -> None:
        registers = [o for o in instruction.operands if re.fullmatch(r"U?R\d+", o)]
        if not instruction.operands or not registers or instruction.operands[0] != registers[0]:
            return
        target = registers[0]
        sources = [o for o in instruction.operands[1:] if not re.fullmatch(r"!?U?P(\d+|T)", o)]
        value = self._result(instruction, [self._value(source, state) for source in sources], sources)
        state[target] = Form.of(f"op@{instruction.address:x}") if value is None else value
        for more in range(1, _registers_written(instruction)):
            prefix, _, number = target.partition("R")
            state[f"{prefix}R{int(number) + more}"] = self._upper(instruction, sources, more)

    def _upper(self, instruction: Instruction, sources: list[str], offset: int) -> Form:
        if instruction.name in ("LDC", "ULDC") and sources and (bank := _CONSTANT.match(sources[0])):
            start, offset_text = bank[2].rsplit("[", 1)
            return self._bank(f"{start}[{int(offset_text[:-1], 16) + 4 * offset:#x}]")
        return Form() if instruction.name == "CS2R" else Form.of(f"op@{instruction.address:x}+{offset}")

    def _result(self, instruction: Instruction, values: list[Form], sources: list[str]) -> Form | None:
        """Linear form of an instruction's result; None if it is not linear."""
        rule = _RULES.get(instruction.name)
        suffixes = instruction.opcode.split(".")[1:]
        if rule is None or "X" in suffixes or "HI" in suffixes:
            return None
        if instruction.name in ("S2R", "S2UR", "CS2R"):
            return Form() if sources[0] == "SRZ" else Form.of(sources[0])
        if instruction.name.startswith("HFMA2"):
            return _half_constant(sources)
        return rule(values, sources, suffixes)


Rule = Callable[[list[Form], list[str], list[str]], Form | None]


def _copy(values: list[Form], sources: list[str], suffixes: list[str]) -> Form | None:
    return values[0] if values else None


def _sum(values: list[Form], sources: list[str], suffixes: list[str]) -> Form | None:
    total = Form()
    for value in values:
        total = total.plus(value)
    return total


def _multiply_add(values: list[Form], sources: list[str], suffixes: list[str]) -> Form | None:
    if len(values) < 3:
        return None
    a, b, c = values[:3]
    if not b.terms:
        return c.plus(a, b.constant)
    return None if a.terms else c.plus(b, a.constant)


def _shifted_add(values: list[Form], sources: list[str], suffixes: list[str]) -> Form | None:
    """`LEA d, a, b, s` is `b + (a << s)`."""
    if len(values) < 3 or values[2].terms:
        return None
    return values[1].plus(values[0], 1 << values[2].constant)


def _shift(values: list[Form], sources: list[str], suffixes: list[str]) -> Form | None:
    if "L" not in suffixes or len(values) < 2 or values[1].terms:
        return None
    return Form().plus(values[0], 1 << values[1].constant)


def _half_constant(sources: list[str]) -> Form | None:
    """Constant built by `HFMA2 d, -RZ, RZ, high, low` from two half-precision immediates."""
    if sources[:2] != ["-RZ", "RZ"] or len(sources) < 4:
        return None
    try:
        high, low = (struct.unpack("<H", struct.pack("<e", float(text)))[0] for text in sources[2:4])
    except ValueError:
        return None
    return Form(high << 16 | low)


_RULES: dict[str, Rule] = {
    **dict.fromkeys(("MOV", "UMOV", "MOV32I", "R2UR", "LDC", "ULDC", "S2R", "S2UR", "CS2R", "HFMA2"), _copy),
    **dict.fromkeys(("IADD3", "UIADD3", "VIADD", "IADD", "UIADD"), _sum),
    **dict.fromkeys(("IMAD", "UIMAD"), _multiply_add),
    **dict.fromkeys(("LEA", "ULEA"), _shifted_add),
    **dict.fromkeys(("SHF", "USHF"), _shift),
}


def _registers_written(instruction: Instruction) -> int:
    if instruction.kind in ("load", "matrix_load"):
        return max(1, instruction.bytes // 4)
    wide = "WIDE" in instruction.opcode or instruction.name == "CS2R"
    return 2 if wide else 1
