"""SASS beside the lines of the source: of a file with the output of nvdisasm, such as that of `cugen inspect`."""

from __future__ import annotations

from collections.abc import Mapping

from cugen.compiled.sass import Instruction, parse
from cugen.report.page import Page

_MAX_LINE = 1 << 20


def sass_of(page: Page, text: str) -> Mapping[int, tuple[str, ...]]:
    """The instructions of each line of the source that has accesses; empty if the text has none of the page's kernels.

    Lines are those that nvdisasm prints with `--print-line-info` or `--print-line-info-inline`."""
    programs = parse(text, range(1, _MAX_LINE))
    made: dict[int, list[str]] = {}
    for launch in page.launches:
        program = programs.get(launch.planned.name)
        lines = {entry.line for entry in launch.entries}
        for instruction in program.instructions if program is not None else ():
            if instruction.line in lines:
                made.setdefault(instruction.line, []).append(_text(instruction))
    return {line: tuple(instructions) for line, instructions in made.items()}


def _text(instruction: Instruction) -> str:
    predicate = f"@{instruction.predicate} " if instruction.predicate else ""
    return f"{instruction.address:04x}  {predicate}{instruction.opcode} {', '.join(instruction.operands)}".rstrip()
