"""Source lines of PTX instructions, from the `.loc` directives of PTX that was compiled with line tables.

    .loc 1 128 17
    .loc 1 32 5, function_name $L__info_string14, inlined_at 1 128 17
    ld.shared.v4.f32 {%f153, %f154, %f155, %f156}, [%r103+256];

SASS instructions get their lines from their PTX. The line table of a cubin doesn't separate two adjacent instructions
that are inlined from different calls of one function.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from cugen.toolchain.binary import elf

_LOC = re.compile(r"\s*\.loc\s+(?P<here>\d+ \d+ \d+)(?:,\s*function_name [^,]*,\s*inlined_at (?P<caller>\d+ \d+ \d+))?")
_NO_CALLER = ""
_TEXT = ".nv_debug_ptx_txt"


def source_lines(ptx: str) -> tuple[int, ...]:
    """Line in the .cu of each line of the PTX; 0 if unknown. Of an inlined function, the line of the outermost call.

    The callers of a caller are in directives before its first use only; of several calls at one position it is that of
    the latest directive."""
    callers: dict[str, set[str]] = {}
    latest: dict[int, int] = {}  # directive of each line
    lines = []
    line = 0
    for number, text in enumerate(ptx.splitlines()):
        if loc := _LOC.match(text):
            here, caller = loc["here"], loc["caller"]
            callers.setdefault(here, set()).add(caller or _NO_CALLER)
            possible = _outermost(caller, callers) if caller else {_line(here)}
            line = max(possible, key=lambda line: (latest.get(line, -1), line))
            latest[line] = number
        lines.append(line)
    return tuple(lines)


def _outermost(position: str, callers: Mapping[str, Collection[str]]) -> set[int]:
    """Lines of the outermost calls that a position may be inlined at."""
    reached, waiting = {position}, [position]
    while waiting:
        added = {caller for caller in callers.get(waiting.pop(), ()) if caller != _NO_CALLER} - reached
        reached |= added
        waiting += added
    outermost = {_line(p) for p in reached if _NO_CALLER in callers.get(p, (_NO_CALLER,))}
    return outermost or {_line(position)}


def _line(position: str) -> int:
    return int(position.split()[1])


def check_same_compilation(image: bytes, ptx: str) -> None:
    """ValueError unless the cubin's instructions have line numbers of this PTX."""
    embedded = elf.section(image, _TEXT).decode().split("\0")
    lines = ptx.splitlines()
    numbered = [(number, text.strip()) for number, text in enumerate(embedded) if text.strip()]
    if not numbered or any(number >= len(lines) or lines[number].strip() != text for number, text in numbered):
        raise ValueError("the PTX isn't that of the cubin, or one of them has no lines")
