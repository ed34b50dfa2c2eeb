"""Source lines of PTX instructions, from the `.loc` directives of PTX that was compiled with line tables.

    .loc 1 128 17
    .loc 1 32 5, function_name $L__info_string14, inlined_at 1 128 17
    ld.shared.v4.f32 {%f153, %f154, %f155, %f156}, [%r103+256];

SASS instructions get their lines from their PTX. The line table of a cubin doesn't separate two adjacent instructions
that are inlined from different calls of one function.
"""

from __future__ import annotations

import re

from cugen.toolchain.binary import elf

_LOC = re.compile(r"\s*\.loc\s+(?P<here>\d+ \d+ \d+)(?:,\s*function_name [^,]*,\s*inlined_at (?P<caller>\d+ \d+ \d+))?")
_TEXT = ".nv_debug_ptx_txt"


def source_lines(ptx: str) -> tuple[int, ...]:
    """Line in the .cu of each line of the PTX; 0 if unknown. Of an inlined function, the line of the outermost call.

    The caller of a caller is in a directive before its first use only; of several at one position the last is taken."""
    callers: dict[str, str] = {}
    lines = []
    line = 0
    for text in ptx.splitlines():
        if loc := _LOC.match(text):
            callers[loc["here"]] = loc["caller"] or ""
            line = _outermost(loc["here"], callers)
        lines.append(line)
    return tuple(lines)


def _outermost(position: str, callers: dict[str, str]) -> int:
    passed: set[str] = set()
    while (caller := callers.get(position)) and caller not in passed:
        passed.add(caller)
        position = caller
    return int(position.split()[1])


def check_same_compilation(image: bytes, ptx: str) -> None:
    """ValueError unless the cubin's instructions have line numbers of this PTX."""
    embedded = elf.section(image, _TEXT).decode().split("\0")
    lines = ptx.splitlines()
    numbered = [(number, text.strip()) for number, text in enumerate(embedded) if text.strip()]
    if not numbered or any(number >= len(lines) or lines[number].strip() != text for number, text in numbered):
        raise ValueError("the PTX isn't that of the cubin, or one of them has no lines")
