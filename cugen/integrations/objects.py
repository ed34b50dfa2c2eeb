"""Incremental compilation: a source is recompiled if its command or an included file has changed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cugen.toolchain import process


@dataclass(frozen=True, slots=True)
class Compiler:
    """Compiler invocation. `command`: without source and output. `folder`: of the objects."""

    command: tuple[str, ...]
    folder: Path

    def compile(self, source: Path) -> Path:
        """Compiles a source and returns its object. Raises CompileError."""
        made = self.folder / f"{source.name}.o"
        dependencies = self.folder / f"{source.name}.d"
        command_file = self.folder / f"{source.name}.command"
        command = [*self.command, "-MMD", "-MF", str(dependencies), "-c", str(source), "-o", str(made)]
        if (
            command_file.is_file()
            and command_file.read_text() == shlex.join(command)
            and up_to_date(made, _read(dependencies))
        ):
            return made
        process.compile_with(command, source.name, self.folder)
        command_file.write_text(shlex.join(command))
        return made

    def link(self, objects: Sequence[Path], library: Path) -> None:
        """Links a shared library and replaces the old one by an atomic rename."""
        made = library.with_name(f".{library.name}.tmp")
        process.compile_with([*self.command, "-shared", *map(str, objects), "-o", str(made)], library.name, self.folder)
        made.replace(library)


def up_to_date(path: Path, inputs: Iterable[Path]) -> bool:
    """Whether a file and all its inputs exist, and the file is not older than any of them."""
    try:
        made = path.stat().st_mtime_ns
        return all(input_file.stat().st_mtime_ns <= made for input_file in inputs)
    except OSError:
        return False


def _read(depfile: Path) -> list[Path]:
    """Dependencies in a compiler's depfile. A missing depfile gives a path that doesn't exist."""
    if not depfile.is_file():
        return [depfile]
    _, _, right = depfile.read_text().replace("\\\n", " ").partition(": ")
    words = re.findall(r"(?:\\.|[^\s\\])+", right)
    return [depfile.parent / re.sub(r"\\(.)", r"\1", word).replace("$$", "$") for word in words]
