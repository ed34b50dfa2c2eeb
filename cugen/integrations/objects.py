"""Compiling a few sources into objects, each again only where its command or a file that it includes has changed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cugen.toolchain import process


@dataclass(frozen=True, slots=True)
class Compiler:
    """`command` is all but the source and the output; objects go to `folder`."""

    command: tuple[str, ...]
    folder: Path

    def compile(self, source: Path) -> Path:
        """The object of a source. CompileError where the compiler refuses it."""
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
        """A shared library, put in its place by one rename."""
        made = library.with_name(f".{library.name}.tmp")
        process.compile_with([*self.command, "-shared", *map(str, objects), "-o", str(made)], library.name, self.folder)
        made.replace(library)


def up_to_date(path: Path, inputs: Iterable[Path]) -> bool:
    """Whether a file is there and no older than its inputs, which are all there too."""
    try:
        made = path.stat().st_mtime_ns
        return all(input_file.stat().st_mtime_ns <= made for input_file in inputs)
    except OSError:
        return False


def _read(depfile: Path) -> list[Path]:
    """The files right of the colon in a compiler's depfile; one that is not there where there is no depfile."""
    if not depfile.is_file():
        return [depfile]
    _, _, right = depfile.read_text().replace("\\\n", " ").partition(": ")
    words = re.findall(r"(?:\\.|[^\s\\])+", right)
    return [depfile.parent / re.sub(r"\\(.)", r"\1", word).replace("$$", "$") for word in words]
