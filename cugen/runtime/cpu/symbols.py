"""Symbols and lines of a program, by nm and addr2line of binutils or LLVM."""

from __future__ import annotations

import functools
import platform
import shutil
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cugen.toolchain.errors import ToolMissing

_TIMEOUT_SECONDS = 60
_VARIABLE_SECTIONS = "bBdD"  # section types of nm that are writable
# Of GNU nm, which without one tries its plugins first: they take ten times as long.
_FORMATS = {"x86_64": "elf64-x86-64", "aarch64": "elf64-littleaarch64"}
_GUARD = "guard variable for "  # of an array with a constructor; has the array's name


@dataclass(frozen=True, slots=True)
class SharedArray:
    """A static shared array; `address` is relative to the file, or to a worker's thread-local variables."""

    function: str
    name: str
    address: int
    bytes: int


@functools.lru_cache
def shared_arrays(program: Path, names: tuple[str, ...]) -> tuple[SharedArray, ...]:
    """The function-local arrays of these `names`, by address. ToolMissing without nm."""
    if not names:
        return ()
    arrays = []
    for line in _listed_symbols(program).splitlines():
        fields = line.split(maxsplit=3)
        if len(fields) == 4 and fields[2] in _VARIABLE_SECTIONS and "::" in fields[3] and _GUARD not in fields[3]:
            function, name = fields[3].rsplit("::", 1)
            if name in names:
                arrays.append(SharedArray(function, name, int(fields[0], 16), int(fields[1], 16)))
    return tuple(sorted(arrays, key=lambda array: array.address))


def _listed_symbols(program: Path) -> str:
    """The program's symbols, as nm lists them."""
    words = ("-S", "-C", "--defined-only", str(program))
    if known := _FORMATS.get(platform.machine()):
        with suppress(subprocess.CalledProcessError):  # an nm without the option, or of another format
            return _run("nm", f"--target={known}", *words)
    return _run("nm", *words)


def lines(program: Path, counters: Iterable[int], source_name: str) -> dict[int, int]:
    """Line of `source_name` for each code address, of the outermost call for inlined code; 0 where unknown."""
    addresses = list(dict.fromkeys(counters))
    if not addresses:
        return {}
    try:
        text = _run("addr2line", "-a", "-i", "-e", str(program), stdin="\n".join(map(hex, addresses)) + "\n")
    except ToolMissing:
        return dict.fromkeys(addresses, 0)
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
    done = subprocess.run(
        [path, *arguments], input=stdin, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=True
    )
    return done.stdout
