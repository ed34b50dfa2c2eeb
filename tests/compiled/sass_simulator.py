"""Execution of the integer part of SASS for all threads of a launch: how often each warp executes each instruction.

The oracle of predicted executions on machines without a GPU. Floating-point values and loaded data are unknown; a
branch or the guard of an access that depends on them is an error. Diverged lanes of a warp reconverge at the lowest
address, in the order of the compiler's basic blocks.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from cugen.compiled.sass import Instruction, Program

_WARP_SIZE = 32  # lanes (CUDA programming guide)
_PREDICATES = 7  # P0 to P6
_ALL = np.uint32(0xFFFFFFFF)
_WORD = 0xFFFFFFFF
_REGISTER = re.compile(r"^([-~])?(U?R)(\d+|Z)(?:\.(?:reuse|64|U32))*$")
_PREDICATE = re.compile(r"^(!)?(U?P)(\d+|T)$")
_BANK = re.compile(r"^([-~])?c\[0x0\]\[(0x[0-9a-f]+)\](?:\.64)?$")
_CONTROL = ("BAR", "BREAK", "BSSY", "BSYNC", "CCTL", "DEPBAR", "ERRBAR", "LDGDEPBAR", "MEMBAR", "WARPSYNC")
_SUM_REGISTERS = {"DMMA": 8, "HMMA": 4, "IMMA": 4, "QMMA": 4}  # that an MMA writes at most
_FLOATS = re.compile(
    r"D(ADD|FMA|MNMX|MUL)|F(ADD|FMA|MNMX|MUL|SEL)|H(ADD2|FMA2|MNMX2|MUL2)|F2F|F2FP|F2I|I2F|I2FP|MUFU|PRMT"
)
_COMPARISONS = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}

Words = NDArray[np.uint32]  # one for each lane
Wide = NDArray[np.uint64]
Signed = NDArray[np.int64]
Flags = NDArray[np.bool_]
Value = tuple[Words, Words]  # words, and their bits that are known
Decision = tuple[Flags, Flags]  # values, and whether they are known


class UnknownInstruction(Exception):
    """An instruction without a rule here, or a branch or guard that depends on data."""


class Launch:
    """Registers of all threads of a launch. `bank` are the 32-bit words of constant bank 0, by their offset."""

    def __init__(self, grid: tuple[int, int, int], block: tuple[int, int, int], bank: Mapping[int, int]) -> None:
        per_block = -(-prod(block) // _WARP_SIZE) * _WARP_SIZE
        thread, number = np.tile(np.arange(per_block), prod(grid)), np.repeat(np.arange(prod(grid)), per_block)
        self.bank = bank
        self.lanes = len(thread)
        self.exists: Flags = thread < prod(block)
        self.special: dict[str, Words] = {"SRZ": np.zeros(self.lanes, dtype=np.uint32)}
        for name, linear, (x, y, _) in (("TID", thread, block), ("CTAID", number, grid)):
            for axis, values in zip("XYZ", (linear % x, linear // x % y, linear // (x * y)), strict=True):
                self.special[f"SR_{name}.{axis}"] = values.astype(np.uint32)
        self.registers: dict[str, Value] = {}
        self.predicates: dict[str, Decision] = {}

    def executions(self, program: Program) -> dict[int, int]:
        """Executions of each instruction by warps with an active lane, by its address."""
        code = program.instructions
        numbers = {instruction.address: n for n, instruction in enumerate(code)}
        counts = dict.fromkeys(numbers, 0)
        position = np.where(self.exists, 0, len(code))
        while (now := int(position.min())) < len(code):
            instruction = code[now]
            here = position == now
            active, certain = self._active(instruction, here)
            counts[instruction.address] += len(np.unique(np.flatnonzero(active) // _WARP_SIZE))
            position[here] = now + 1
            if instruction.name == "EXIT":
                position[active] = len(code)
            elif instruction.name == "BRA" and instruction.target is not None:
                for operand in filter(_PREDICATE.match, instruction.operands):
                    active = active & self._decided(operand, active)
                position[active] = numbers[instruction.target]
            elif instruction.name not in _CONTROL:
                self._execute(instruction, active, certain)
        return counts

    def _active(self, instruction: Instruction, here: Flags) -> tuple[Flags, Flags]:
        """Lanes that may execute an instruction, and those of them that do."""
        if not instruction.predicate:
            return here, here
        if instruction.space or instruction.name in ("BRA", "EXIT"):
            active = here & self._decided(instruction.predicate, here)
            return active, active
        holds, known = self._predicate(instruction.predicate)
        return here & (holds | ~known), here & holds & known

    def _decided(self, operand: str, lanes: Flags) -> Flags:
        holds, known = self._predicate(operand)
        if not known[lanes].all():
            raise UnknownInstruction(f"{operand} depends on data")
        return holds

    # Operands

    def _predicate(self, operand: str) -> Decision:
        match = _PREDICATE.match(operand)
        if match is None:
            raise UnknownInstruction(operand)
        true = np.ones(self.lanes, dtype=bool)
        holds, known = (true, true) if match[3] == "T" else self.predicates.get(match[2] + match[3], (~true, true))
        return (~holds if match[1] else holds), known

    def _value(self, operand: str, part: int = 0) -> Value:
        """An operand; with `part` 1 the upper word of 64 bits."""
        every, zeros = np.full(self.lanes, _ALL), np.zeros(self.lanes, dtype=np.uint32)
        if match := _REGISTER.match(operand):
            name = "" if match[3] == "Z" else f"{match[2]}{int(match[3]) + part}"
            words, bits = self.registers.get(name, (zeros, every))
        elif match := _BANK.match(operand):
            word = self.bank.get(int(match[2], 16) + 4 * part)
            words, bits = np.full(self.lanes, word or 0, dtype=np.uint32), zeros if word is None else every
        elif re.fullmatch(r"-?(0x[0-9a-f]+|\d+)", operand):
            return np.full(self.lanes, int(operand, 0) >> 32 * part & _WORD, dtype=np.uint32), every
        else:
            return zeros, zeros
        if match[1] == "-":
            return (~words + np.uint32(1)), np.where(bits == _ALL, _ALL, np.uint32(0))
        return (~words, bits) if match[1] == "~" else (words, bits)

    def _put(self, target: str, value: Value | None, lanes: tuple[Flags, Flags], part: int = 0) -> None:
        """Writes a register in the lanes that may execute the write, and do."""
        match = _REGISTER.match(target)
        if match is None:
            raise UnknownInstruction(target)
        if match[3] == "Z":
            return
        nothing = np.zeros(self.lanes, dtype=np.uint32)
        name = f"{match[2]}{int(match[3]) + part}"
        old_words, old_bits = self.registers.get(name, (nothing, ~nothing))
        words, bits = (old_words, nothing) if value is None else value
        active, certain = lanes
        unsure = bits & old_bits & ~(words ^ old_words)
        self.registers[name] = (
            np.where(active, words, old_words),
            np.where(certain, bits, np.where(active, unsure, old_bits)),
        )

    def _decide(self, target: str, decision: Decision | None, lanes: tuple[Flags, Flags]) -> None:
        name = target.lstrip("!")
        if name in ("PT", "UPT"):
            return
        false = np.zeros(self.lanes, dtype=bool)
        old_holds, old_known = self.predicates.get(name, (false, ~false))
        holds, known = (false, false) if decision is None else decision
        active, certain = lanes
        self.predicates[name] = (
            np.where(active, holds, old_holds),
            np.where(certain, known, np.where(active, known & old_known & (holds == old_holds), old_known)),
        )

    # Instructions

    def _execute(self, instruction: Instruction, active: Flags, certain: Flags) -> None:
        lanes = (active, certain)
        if instruction.space and instruction.kind not in ("load", "matrix_load"):
            return
        suffixes = instruction.opcode.split(".")[1:]
        operands = list(instruction.operands)
        if not operands:
            raise UnknownInstruction(instruction.opcode)
        name = instruction.name.removeprefix("U")
        if name in ("ISETP", "PLOP3", "DSETP", "FSETP", "HSETP2"):
            decisions = self._decisions(name, suffixes, operands[2:])
            for output, decision in zip(operands[:2], decisions, strict=True):
                self._decide(output, decision, lanes)
        elif name in ("VOTE", "VOTEU") and _PREDICATE.match(operands[0]):
            self._decide(operands[0], self._vote(suffixes[0], operands[-1], active), lanes)
        elif name == "R2P":
            words, bits = self._value(operands[1])
            for number in _bits(operands[2]):
                self._decide(f"P{number}", (_bit(words, number), _bit(bits, number)), lanes)
        elif instruction.space not in ("", "constant") or name in ("TLD", *_SUM_REGISTERS):
            for part in range(_SUM_REGISTERS.get(name, max(1, instruction.bytes // 4))):
                self._put(operands[0], None, lanes, part)
        else:
            outputs: list[str] = []
            while _PREDICATE.match(operands[0]):  # of LOP3, before its target
                outputs.append(operands.pop(0))
            target = operands.pop(0)
            while name in ("IADD3", "IMAD", "LEA") and _PREDICATE.match(operands[0]):
                outputs.append(operands.pop(0))
            results, decisions = self._results(instruction, name, suffixes, operands)
            for part, value in enumerate(results):
                self._put(target, value, lanes, part)
            for output, decision in zip(outputs, (*decisions, None, None), strict=False):
                self._decide(output, decision, lanes)

    def _decisions(self, name: str, suffixes: list[str], operands: list[str]) -> Sequence[Decision | None]:
        """The two predicates that a comparison sets."""
        if name == "PLOP3":
            parts = [self._predicate(operand) for operand in operands[:3]]
            row = sum(holds.astype(np.int64) << 2 - n for n, (holds, _) in enumerate(parts))
            known = np.logical_and.reduce([known for _, known in parts])
            return [(np.array(int(table, 0) >> row & 1, dtype=bool), known) for table in operands[3:5]]
        if name != "ISETP":
            return (None, None)
        (a, a_bits), (b, b_bits) = self._value(operands[0]), self._value(operands[1])
        x, y = (a, b) if "U32" in suffixes else (a.view(np.int32), b.view(np.int32))
        holds, known = _COMPARISONS[suffixes[0]](x, y), (a_bits == _ALL) & (b_bits == _ALL)
        if "EX" in suffixes:  # of upper words; the comparison of the lower ones is an operand
            lower, lower_known = self._predicate(operands[3])
            holds, known = np.where(x == y, lower, _COMPARISONS[suffixes[0]](x, y)), known & lower_known
        input_holds, input_known = self._predicate(operands[2])
        if "AND" in suffixes:
            decided = (input_known & ~input_holds) | (known & ~holds)
            return ((holds & input_holds, (known & input_known) | decided), (~holds & input_holds, known & input_known))
        if "OR" in suffixes:
            decided = (input_known & input_holds) | (known & holds)
            return ((holds | input_holds, (known & input_known) | decided), (~holds | input_holds, known & input_known))
        raise UnknownInstruction(f"ISETP.{'.'.join(suffixes)}")

    def _results(
        self, instruction: Instruction, name: str, suffixes: list[str], operands: list[str]
    ) -> tuple[Sequence[Value | None], Sequence[Decision | None]]:
        """The words that an instruction writes, and its predicates."""
        if name in ("S2R", "S2UR", "CS2R"):
            word = self.special.get(operands[0])
            value = None if word is None else (word, np.full(self.lanes, _ALL))
            return [value] * (2 if name == "CS2R" and "32" not in suffixes else 1), ()
        if name == "LDC":
            return [self._value(operands[0], part) for part in range(instruction.bytes // 4)], ()
        if name in ("MOV", "R2UR", "2UR"):
            return [self._value(operands[0])], ()
        if name == "LOP3":
            return self._logic(operands)
        if name == "P2R":
            return [self._predicate_bits(operands)], ()
        if name == "HFMA2" and operands[:2] == ["-RZ", "RZ"]:
            return [self._halves(operands[2:4])], ()
        if _FLOATS.fullmatch(name):
            return [None] * (2 if name.startswith("D") or "F64" in suffixes else 1), ()
        carries = [self._predicate(operand) for operand in operands if _PREDICATE.match(operand)]
        values = [self._value(operand) for operand in operands if not _PREDICATE.match(operand)]
        known = np.logical_and.reduce([bits == _ALL for _, bits in (*values,)] + [flag for _, flag in carries])
        words = [word for word, _ in values]
        if name == "IMAD" and "WIDE" in suffixes:
            upper, upper_bits = self._value(operands[2], 1)
            total, carry = _multiplied(words, upper, is_signed="U32" not in suffixes)
            known &= upper_bits == _ALL
            bits = np.where(known, _ALL, np.uint32(0))
            return [(total.astype(np.uint32), bits), ((total >> np.uint64(32)).astype(np.uint32), bits)], [
                (carry, known)
            ]
        sums = _sum(name, suffixes, words, [flag for flag, _ in carries])
        result = ((sums & _WORD).astype(np.uint32), np.where(known, _ALL, np.uint32(0)))
        return [result], [((sums >> 32).astype(bool), known)]

    def _logic(self, operands: list[str]) -> tuple[Sequence[Value], Sequence[Decision]]:
        """LOP3: bits are known where all values that they may have agree."""
        table = int(operands[3], 0)
        ones, zeros = np.zeros((2, self.lanes), dtype=np.uint32)  # bits that may be 1, and 0
        for row in range(8):
            may = np.full(self.lanes, _ALL)
            for (words, bits), selected in zip(map(self._value, operands[:3]), (4, 2, 1), strict=True):
                may &= (words if row & selected else ~words) | ~bits
            ones, zeros = (ones | may, zeros) if table >> row & 1 else (ones, zeros | may)
        bits = ones ^ zeros
        holds = (ones & bits) != 0
        return [(ones, bits)], [(holds, holds | (bits == _ALL))]

    def _vote(self, mode: str, operand: str, active: Flags) -> Decision:
        """Whether a predicate holds in all active lanes of a warp, or in any."""
        holds, known = self._predicate(operand)
        warps = np.arange(self.lanes) // _WARP_SIZE
        votes, voters, sure = (np.bincount(warps, lanes) for lanes in (active & holds, active, active & known))
        decided = votes == voters if mode == "ALL" else votes > 0
        return decided[warps], (sure == voters)[warps]

    def _predicate_bits(self, operands: list[str]) -> Value:
        """P2R: bits of a register replaced by predicates."""
        words, bits = self._value(operands[1])
        for number in _bits(operands[2]):
            holds, known = self._predicate(f"P{number}")
            mask, shift = np.uint32(~(1 << number) & _WORD), np.uint32(number)
            words = words & mask | holds.astype(np.uint32) << shift
            bits = bits & mask | known.astype(np.uint32) << shift
        return words, bits

    def _halves(self, operands: Sequence[str]) -> Value | None:
        """A constant as two half-precision immediates."""
        try:
            high, low = (struct.unpack("<H", struct.pack("<e", float(text)))[0] for text in operands)
        except ValueError:
            return None
        return np.full(self.lanes, high << 16 | low, dtype=np.uint32), np.full(self.lanes, _ALL)


def _sum(name: str, suffixes: list[str], words: list[Words], flags: list[Flags]) -> Signed:
    """The result of an instruction, with the carry above its 32 bits."""
    a, *others = (word.astype(np.int64) for word in words)
    signed = [word.view(np.int32).astype(np.int64) for word in words]
    carry = sum((flag.astype(np.int64) for flag in flags), np.int64(0)) if "X" in suffixes else np.int64(0)
    match name:
        case "IADD3" | "VIADD":
            return np.asarray(sum(others, a) + carry)
        case "IMAD" if "HI" in suffixes:
            x, y = (a.astype(np.uint64), others[0].astype(np.uint64)) if "U32" in suffixes else signed[:2]
            return np.asarray((x * y >> 32).astype(np.int64) + others[1])
        case "IMAD":
            return np.asarray((a * others[0] & _WORD) + others[1] + carry)
        case "LEA" if "HI" in suffixes:
            shift = others[-1]
            upper = signed[0] >> 32 if "SX32" in suffixes else others[1]
            return np.asarray(((a >> 32 - shift | upper << shift) & _WORD) + others[0] + carry)
        case "LEA":
            return np.asarray((a << others[1] & _WORD) + others[0])
        case "SHF" if suffixes[0] == "L":
            distance = np.minimum(others[0], 32)
            if "HI" in suffixes:
                return np.asarray((others[1] << distance | a >> 32 - distance) & _WORD)
            return np.asarray(a << distance & _WORD)
        case "SHF" if "HI" in suffixes:
            return np.asarray((signed[2] if "S32" in suffixes else others[1]) >> np.minimum(others[0], 32) & _WORD)
        case "SEL":
            return np.where(flags[0], a, others[0])
        case "IMNMX" | "VIMNMX":
            x, y = (a, others[0]) if "U32" in suffixes else signed[:2]
            return np.where(flags[0], np.minimum(x, y), np.maximum(x, y)) & _WORD
        case "IABS":
            return np.asarray(np.abs(signed[0]))
    raise UnknownInstruction(".".join((name, *suffixes)))


def _multiplied(words: list[Words], upper: Words, *, is_signed: bool) -> tuple[Wide, Flags]:
    """IMAD.WIDE: the sum of 64 bits, and its carry."""
    a, b = (word.view(np.int32).astype(np.int64) if is_signed else word.astype(np.int64) for word in words[:2])
    addend = words[2].astype(np.uint64) | upper.astype(np.uint64) << np.uint64(32)
    total = a.astype(np.uint64) * b.astype(np.uint64) + addend
    return total, total < addend


def _bits(mask: str) -> list[int]:
    return [number for number in range(_PREDICATES) if int(mask, 0) >> number & 1]


def _bit(words: Words, number: int) -> Flags:
    return (words >> np.uint32(number) & np.uint32(1)).astype(bool)
