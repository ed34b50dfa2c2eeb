"""Names and lines behind the addresses of a finished program, from binutils (or LLVM's tools of the same use)."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from cugen.toolchain.errors import ToolMissing

_SECONDS = 60
_VARIABLE_SECTIONS = "bBdD"  # of nm: not read-only
_GUARD = "guard variable for "  # beside an array of a class, under the array's own name


@dataclass(frozen=True, slots=True)
class SharedArray:
    """A statically allocated shared array; `address` is the one in the file."""

    name: str
    address: int
    bytes: int


def shared_arrays(program: Path, names: Collection[str]) -> tuple[SharedArray, ...]:
    """The arrays of these `names` inside functions, by address. ToolMissing where no nm is found."""
    if not names:
        return ()
    text = _run("nm", "-S", "-C", "--defined-only", str(program))
    found = []
    for line in text.splitlines():
        fields = line.split(maxsplit=3)
        if len(fields) == 4 and fields[2] in _VARIABLE_SECTIONS and "::" in fields[3] and _GUARD not in fields[3]:
            name = fields[3].rsplit("::", 1)[1]
            if name in names:
                found.append(SharedArray(name, int(fields[0], 16), int(fields[1], 16)))
    return tuple(sorted(found, key=lambda array: array.address))


def lines(program: Path, counters: Iterable[int], source_name: str) -> dict[int, int]:
    """The line of `source_name` for each code address; where the code is inlined, from a header or a helper of that
    file, the line of the outermost call. 0 where unknown."""
    wanted = list(dict.fromkeys(counters))
    if not wanted:
        return {}
    try:
        text = _run("addr2line", "-a", "-i", "-e", str(program), stdin="\n".join(map(hex, wanted)) + "\n")
    except ToolMissing:
        return dict.fromkeys(wanted, 0)
    result: dict[int, int] = {}
    current = -1
    for line in text.splitlines():
        if line.startswith("0x"):
            current = int(line, 16)
            result[current] = 0
        else:
            file, _, number = line.split(" ", 1)[0].rpartition(":")
            if Path(file).name == source_name and number.isdigit():
                result[current] = int(number)
    return result


def _run(tool: str, *arguments: str, stdin: str = "") -> str:
    path = shutil.which(tool) or shutil.which(f"llvm-{tool}")
    if path is None:
        raise ToolMissing(f"`{tool}`", "install binutils (`apt install binutils`, `dnf install binutils`)")
    done = subprocess.run([path, *arguments], input=stdin, capture_output=True, text=True, timeout=_SECONDS, check=True)
    return done.stdout
