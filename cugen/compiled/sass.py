"""SASS instructions as printed by nvdisasm, with source lines, basic blocks and loops.

    /*01b0*/   @!P1 LDG.E.CONSTANT R20, desc[UR4][R16.64+0x10] ;

Opcodes carry the width as a suffix (none is 32 bits). A label that a later branch returns to begins a loop.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

_SECTION = re.compile(r"^//-+ \.text\.(\S+)\s")
_PTX_LINE = re.compile(r'//## File "[^"]*", line (\d+)')
_LABEL = re.compile(r"^(\.L_\w+|\$\S+):")
_CODE = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:@(!?U?P[0-9T]+)\s+)?([A-Z][A-Za-z0-9_.]*)\s*(.*?)\s*;")
_TARGET = re.compile(r"`\(([^)]*)\)")
_BITS = re.compile(r"[US](8|16)$")
_MATRIX_BYTES = 4  # per lane, of a matrix of 8 x 8 16-bit elements (PTX ISA: ldmatrix)
_MATRIX_ROW_BYTES = 16  # at the address that a lane gives (PTX ISA: stmatrix)

TENSOR_COPIES = ("UTMALDG", "UTMASTG")  # of boxes, by TMA
_SPACES = {
    "LDG": ("global", "load"),
    "STG": ("global", "store"),
    "LDS": ("shared", "load"),
    "STS": ("shared", "store"),
    "LDL": ("local", "load"),
    "STL": ("local", "store"),
    "LDC": ("constant", "load"),
    "ULDC": ("constant", "load"),
    "LD": ("generic", "load"),
    "ST": ("generic", "store"),
    "LDSM": ("shared", "matrix_load"),
    "STSM": ("shared", "matrix_store"),
    "LDGSTS": ("shared", "async_copy"),
    "ATOMS": ("shared", "atomic"),
    "ATOMG": ("global", "atomic"),
    "ATOM": ("generic", "atomic"),
    "RED": ("global", "atomic"),
    "REDG": ("global", "atomic"),
    "UBLKCP": ("shared", "bulk_copy"),
    "UTMALDG": ("shared", "bulk_copy"),
    "UTMASTG": ("global", "bulk_copy"),
}


@dataclass(frozen=True, slots=True)
class Instruction:
    """SASS instruction.

    line: line in the .cu, 0 if unknown; for inlined code, the line of the outermost call. predicate: for example "!P1",
    empty if unconditional. target: address of a direct branch."""

    address: int
    predicate: str
    opcode: str
    operands: tuple[str, ...]
    line: int
    target: int | None = None

    @property
    def name(self) -> str:
        """The opcode without suffixes."""
        return self.opcode.partition(".")[0]

    @property
    def space(self) -> str:
        """Memory space that it accesses; empty for arithmetic."""
        return _SPACES.get(self.name, ("", ""))[0]

    @property
    def kind(self) -> str:
        """Kind of access: load, store, async_copy, matrix_load, matrix_store, atomic or bulk_copy."""
        return _SPACES.get(self.name, ("", ""))[1]

    @property
    def bytes(self) -> int:
        """Bytes per lane in registers: of a load of matrices, a word of each (`LDSM.16.M88.4`). Of a store of matrices
        those that a lane addresses, a row."""
        suffixes = self.opcode.split(".")[1:]
        if self.kind == "matrix_store":
            return _MATRIX_ROW_BYTES
        if self.kind == "matrix_load":
            return _MATRIX_BYTES * (int(suffixes[-1]) if suffixes[-1].isdigit() else 1)
        for suffix in suffixes:
            if suffix in ("64", "128"):
                return int(suffix) // 8
            if bits := _BITS.match(suffix):
                return int(bits[1]) // 8
        return 4


@dataclass(frozen=True)
class Program:
    """SASS of one kernel, in address order."""

    name: str
    instructions: tuple[Instruction, ...]

    @cached_property
    def loops(self) -> tuple[tuple[int, int], ...]:
        """First and last address of each loop, innermost (shortest) first.

        A backward branch closes a loop only if its block is reachable from its target. Cold code at the end of a kernel
        also returns by backward branches."""
        back = [i for i in self.instructions if i.name == "BRA" and i.target is not None and i.target < i.address]
        result = {
            (i.target, i.address) for i in back if i.target is not None
        }  # the self-branch that pads the code is no loop
        closed = (span for span in result if self.block_at(span[1]) in self._reached[self.block_at(span[0])])
        return tuple(sorted(closed, key=lambda span: (span[1] - span[0], span)))

    def loop_of(self, instruction: Instruction) -> tuple[int, int] | None:
        """The innermost loop that contains an instruction; None if it runs at most once."""
        block = self.block_of(instruction)
        if block not in self._repeated:
            return None
        spans = [s for s in self.loops if {block, self.block_at(s[1])} <= self._reached[self.block_at(s[0])]]
        inside = [span for span in spans if span[0] <= instruction.address <= span[1]]
        return next(iter(inside or spans[-1:]), None)

    def next_blocks(self, start: int) -> tuple[int, ...]:
        """Successor blocks."""
        position = bisect_right(self.block_starts, start)
        behind = self.block_starts[position : position + 1]
        last = self._last[start]
        goals = () if last.target is None else (last.target,)
        # `BRA P1, target` is conditional without a predicate of its own
        conditional = last.predicate or (last.name == "BRA" and len(last.operands) > 1)
        return goals if last.name in ("BRA", "EXIT", "RET", "BRX") and not conditional else (*goals, *behind)

    def conditions(self, instruction: Instruction) -> frozenset[object]:
        """What decides whether an instruction runs: its predicate, and the branches with the block that each goes to.

        Control dependence, and that of these branches: Ferrante et al., The Program Dependence Graph, 1987. With an
        indirect branch, the predicate alone."""
        branches: frozenset[object] = self._conditions.get(self.block_of(instruction), frozenset())
        return branches | {instruction.predicate} if instruction.predicate else branches

    @cached_property
    def _conditions(self) -> Mapping[int, frozenset[object]]:
        if any(i.name == "BRX" for i in self.instructions):
            return {}
        direct: dict[int, set[tuple[int, int]]] = {start: set() for start in self.block_starts}
        for start in self.block_starts:
            successors = self._successors(start)
            for successor in successors if len(successors) > 1 else ():
                for decided in self._post_dominators.get(successor, frozenset()) - (
                    self._post_dominators[start] - {start}
                ):
                    direct[decided].add((start, successor))
        result: dict[int, frozenset[object]] = {}
        for start in self.block_starts:
            edges: set[tuple[int, int]] = set()
            waiting = [start]
            while waiting:
                added = direct[waiting.pop()] - edges
                edges |= added
                waiting += [branch for branch, _ in added]
            result[start] = frozenset(edges)
        return result

    @cached_property
    def _post_dominators(self) -> Mapping[int, frozenset[int]]:
        """The blocks that run after each block, and itself, on whatever path the kernel ends."""
        result = dict.fromkeys(self.block_starts, frozenset(self.block_starts))
        changed = True
        while changed:
            changed = False
            for start in reversed(self.block_starts):
                ends = [result.get(successor, frozenset()) for successor in self._successors(start)]
                found = frozenset({start}).union(frozenset.intersection(*ends) if ends else ())
                changed = changed or found != result[start]
                result[start] = found
        return result

    def _successors(self, start: int) -> tuple[int, ...]:
        """Successor blocks, -1 for the end of the kernel. A call returns."""
        last = self._last[start]
        if last.name == "CALL":
            return tuple(block for block in self.next_blocks(start) if block != last.target)
        return (*self.next_blocks(start), *((-1,) if last.name in ("EXIT", "RET") else ()))

    @cached_property
    def _last(self) -> Mapping[int, Instruction]:
        return {self.block_of(instruction): instruction for instruction in self.instructions}

    @cached_property
    def _reached(self) -> Mapping[int, frozenset[int]]:
        """Blocks reachable from each block, itself included. With an indirect branch, all blocks."""
        if any(i.name == "BRX" for i in self.instructions):
            return dict.fromkeys(self.block_starts, frozenset(self.block_starts))
        return {start: frozenset({start}) | self._behind(start) for start in self.block_starts}

    def _behind(self, start: int) -> frozenset[int]:
        result: set[int] = set()
        waiting = [*self.next_blocks(start)]
        while waiting:
            block = waiting.pop()
            if block not in result:
                result.add(block)
                waiting += self.next_blocks(block)
        return frozenset(result)

    @cached_property
    def _repeated(self) -> frozenset[int]:
        """Blocks inside a cycle of the control flow graph."""
        return frozenset(
            start
            for start in self.block_starts
            if any(start in self._reached[goal] for goal in self.next_blocks(start))
        )

    @cached_property
    def block_starts(self) -> tuple[int, ...]:
        """Start addresses of the basic blocks."""
        starts = {self.instructions[0].address} if self.instructions else set()
        for position, instruction in enumerate(self.instructions):
            if instruction.target is not None:
                starts.add(instruction.target)
            if instruction.name in ("BRA", "CALL", "EXIT", "RET", "BRX") and position + 1 < len(self.instructions):
                starts.add(self.instructions[position + 1].address)
        return tuple(sorted(starts))

    def block_of(self, instruction: Instruction) -> int:
        """Start address of the instruction's basic block."""
        return self.block_at(instruction.address)

    def block_at(self, address: int) -> int:
        """Start address of the basic block that contains an address."""
        return self.block_starts[bisect_right(self.block_starts, address) - 1]


def parse(text: str, source_lines: Sequence[int] = ()) -> Mapping[str, Program]:
    """Kernels in the output of nvdisasm with the lines of PTX, by name. `source_lines`: line in the .cu of each line
    of the PTX. Unreachable code after the last EXIT is left out."""
    result: dict[str, Program] = {}
    name = ""
    lines: list[str] = []
    for row in (*text.splitlines(), "//--- .text. "):
        section = _SECTION.match(row)
        if section or row.startswith("//---"):
            if name:
                result[name] = Program(name, _instructions(lines, source_lines))
            name, lines = (section[1] if section else ""), []
        elif name:
            lines.append(row)
    return result


def _instructions(rows: list[str], source_lines: Sequence[int]) -> tuple[Instruction, ...]:
    result: list[Instruction] = []
    labels: dict[str, int] = {}
    pending: list[str] = []
    line = 0
    for row in rows:
        if mark := _PTX_LINE.search(row):
            line = source_lines[int(mark[1]) - 1]
        elif label := _LABEL.match(row):
            pending.append(label[1])
        elif code := _CODE.match(row):
            address = int(code[1], 16)
            labels.update(dict.fromkeys(pending, address))
            pending.clear()
            operands = tuple(part.strip() for part in re.split(r",\s*(?![^\[]*\])", code[4]) if part.strip())
            result.append(Instruction(address, code[2] or "", code[3], operands, line))
    return tuple(_with_target(instruction, labels) for instruction in result if instruction.name != "NOP")


def _with_target(instruction: Instruction, labels: Mapping[str, int]) -> Instruction:
    if instruction.name not in ("BRA", "CALL"):
        return instruction
    goal = _TARGET.search(" ".join(instruction.operands))
    return replace(instruction, target=labels.get(goal[1])) if goal else instruction
