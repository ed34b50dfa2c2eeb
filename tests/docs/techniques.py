"""What texts on GPU memory teach, as `data/techniques.yaml` lists it, and the page that is made of it."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from cugen.cli.main import main
from tests.docs.pages import ROOT

LIST = ROOT / "tests" / "data" / "techniques.yaml"
PAGE = ROOT / "docs" / "techniques.md"
NUMBERS = range(1, 159)
_FOLDERS = ("specs", "examples", "docs", "generated")  # that commands read


@dataclass(frozen=True)
class Technique:
    """A line of the list: by a command with parts of what it prints, or writes into a file, or by a test."""

    topic: str
    row: int
    teaches: str
    cugen: str = ""
    shows: tuple[str, ...] = ()
    status: int = 0
    file: str = ""
    needs_gpu: bool = False
    test: str = ""
    instead: str = ""
    is_hardware: bool = False

    def __str__(self) -> str:
        return str(self.row)

    def missing(self, printed: str) -> list[str]:
        """The parts that a text lacks, however its lines are broken."""
        words = " ".join(printed.split())
        return [part for part in self.shows if " ".join(part.split()) not in words]


def techniques() -> list[Technique]:
    """All lines, by topic."""
    topics: dict[str, list[dict[str, Any]]] = yaml.safe_load(LIST.read_text())
    return [_technique(topic, line) for topic, lines in topics.items() for line in lines]


def _technique(topic: str, line: dict[str, Any]) -> Technique:
    known = dict(line)
    return Technique(
        topic,
        known.pop("row"),
        known.pop("teaches"),
        shows=tuple(str(part) for part in known.pop("shows", ())),
        file=known.pop("in", ""),
        needs_gpu=known.pop("needs", "") == "gpu",
        is_hardware=known.pop("hardware", False),
        **known,
    )


def execute(technique: Technique, folder: Path) -> int:
    """Runs the command in an empty folder with what it reads, and returns its exit status."""
    for name in _FOLDERS:
        (folder / name).symlink_to(ROOT / name)
    before = Path.cwd()
    os.chdir(folder)
    try:
        return main(shlex.split(technique.cugen))
    finally:
        os.chdir(before)


def tables() -> str:
    """The tables of the page."""
    parts = []
    lines = techniques()
    for topic in dict.fromkeys(line.topic for line in lines):
        parts.append(f"## {topic}\n\n| | what is taught | command | what it shows |\n|---|---|---|---|\n")
        parts += [_row(line) for line in lines if line.topic == topic]
        parts.append("\n")
    return "".join(parts).rstrip("\n") + "\n"


def _row(line: Technique) -> str:
    command = f"{_code(f'cugen {line.cugen}')}{', on a GPU' if line.needs_gpu else ''}" if line.cugen else ""
    shown = [", ".join(map(_code, line.shows))] if line.shows else []
    if line.file:
        shown[0] = f"in {_code(line.file)}: {shown[0]}"
    if line.test:
        path, _, _ = line.test.partition("::")
        shown.append(f"a test in [{Path(path).name}](../{path})")
    if line.instead:
        shown.append(f"instead {line.instead}")
    if line.is_hardware:
        shown.append("says nothing about software")
    return f"| {line.row} | {line.teaches} | {command} | {'; '.join(shown)} |\n"


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"
