"""Incremental compilation: a source is recompiled if its command or an included file has changed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cugen.emit.files import replacement
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
        command = [*self.command, "-MMD", "-MF", str(dependencies), "-c", str(source)]
        if (
            command_file.is_file()
            and command_file.read_text() == shlex.join(command)
            and up_to_date(made, _read(dependencies))
        ):
            return made
        with replacement(made) as private:  # an object of half a file would be up to date
            process.compile_with([*command, "-o", str(private)], source.name, self.folder)
        command_file.write_text(shlex.join(command))
        return made

    def link(self, objects: Sequence[Path], library: Path) -> None:
        """Links a shared library and replaces the old one by an atomic rename."""
        command = [*self.command, "-shared", *map(str, objects)]
        with replacement(library) as private:
            process.compile_with([*command, "-o", str(private)], library.name, self.folder)


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
