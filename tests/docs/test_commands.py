"""Every command and Python program of every page runs, in the order of the page and in a folder of its own.

A block that names a file (```` ```yaml smooth.yaml ````) is part of that file where it exists, in the repository or
as made by the commands before it; else it is the file. A block of text after a console is what these
print; `…` is any text. Commands succeed, but for those of a console with a status (```` ```console exit 1 ````).
"""

from __future__ import annotations

import contextlib
import fnmatch
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from cugen.cli.main import main
from tests.docs.pages import PAGES, ROOT, Block, blocks, name_of

DATA: dict[str, Any] = yaml.safe_load((ROOT / "tests" / "data" / "page_commands.yaml").read_text())
NOT_RUN: list[dict[str, str]] = DATA["not_run"]
LANGUAGES = {
    "specs and commands": ("yaml", "console", "sh", "python"),
    "texts": ("", "text", "diff", "ebnf", "{eval-rst}"),
    "sources": ("c", "cpp", "cuda", "cmake", "make", "meson", "ninja", "toml", "jinja", "json"),
}
SHELL = frozenset("|&;<>()$`*?~#\n")  # characters that a shell interprets
SOME = [
    pytest.param(page, id=name_of(page), marks=[pytest.mark.slow] if name_of(page) in DATA["slow"] else [])
    for page in PAGES
    if any(block.commands or block.language == "python" for block in blocks(page))
]


def reason_not_to_run(page: Path, command: str) -> dict[str, str] | None:
    """The line of the list that leaves a command or program out."""
    return next((e for e in NOT_RUN if e["page"] == name_of(page) and command.startswith(e["command"])), None)


def steps(page: Path) -> list[str]:
    """The commands and programs of a page."""
    each = [[*block.commands, *([block.text] if block.language == "python" else [])] for block in blocks(page)]
    return [step for part in each for step in part]


class Folder:
    """An empty folder with the gallery, in which the blocks of a page are followed."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "project"
        self.printed = ""
        self.program = ""
        program = folder / "bin" / "cugen"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m cugen "$@"\n')
        program.chmod(0o755)
        path = os.pathsep.join([str(program.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
        self.variables = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)}
        shutil.copytree(ROOT / "specs", self.path / "specs")

    def follow(self, page: Path, block: Block) -> None:
        if block.file and block.language != "diff":
            self._file(block)
        elif block.language == "text" and self.printed:
            assert fnmatch.fnmatchcase(self.printed, pattern(block.text)), self.printed
        elif block.language in ("console", "sh"):
            commands = [command for command in block.commands if not reason_not_to_run(page, command)]
            self.printed = "".join(self._command(command, block.status) for command in commands)
        elif block.language == "python" and not reason_not_to_run(page, block.text):
            self.program += block.text  # a program goes on from those above it
            self._run(sys.executable, "-c", self.program)

    def _file(self, block: Block) -> None:
        for path in (ROOT / block.file, self.path / block.file):
            if path.exists():
                assert block.text in path.read_text(), f"{block.file} has no such part"
                return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text)

    def _command(self, command: str, status: int) -> str:
        """What a command prints. One of cugen alone runs in this process: most take less time than Python's start."""
        if not command.startswith("cugen ") or SHELL.intersection(command):
            assert status == 0, "only commands of cugen alone may fail"
            return self._run("sh", "-e", "-c", command)
        with (
            contextlib.chdir(self.path),
            contextlib.redirect_stdout(io.StringIO()) as printed,
            contextlib.redirect_stderr(printed),
        ):
            assert main(shlex.split(command)[1:]) == status, f"{command}\n{printed.getvalue()}"
        return printed.getvalue()

    def _run(self, *command: str) -> str:
        done = subprocess.run(
            command, cwd=self.path, env=self.variables, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, f"{command[-1]}\n{done.stdout}{done.stderr}"
        return done.stdout


def pattern(shown: str) -> str:
    """A pattern of output that has the shown lines, in which `…` is any text."""
    return "*" + re.sub(r"[\[*?]", "[\\g<0>]", shown).replace("…", "*") + "*"


@pytest.mark.whole
@pytest.mark.parametrize("page", SOME)
def test_the_commands_and_programs_of_a_page_run(page: Path, tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for block in blocks(page):
        folder.follow(page, block)


@pytest.mark.parametrize("entry", NOT_RUN, ids=lambda entry: f"{entry['page']}-{entry['command']}")
def test_a_command_that_is_not_run_is_on_its_page_and_has_a_reason(entry: dict[str, str]) -> None:
    page = ROOT / entry["page"]
    assert any(reason_not_to_run(page, step) == entry for step in steps(page))
    reason = entry["reason"]
    assert reason.startswith(("the network", "a GPU", "PyTorch", "VS Code", "tests/"))
    assert [test for test in re.findall(r"tests/[\w/]+\.py", reason) if not (ROOT / test).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_block_of_a_page_hides_a_command(page: Path) -> None:
    known = {language for languages in LANGUAGES.values() for language in languages}
    assert {block.language for block in blocks(page)} <= known
    texts = [block.text for block in blocks(page) if block.language in LANGUAGES["texts"]]
    assert [line for text in texts for line in text.splitlines() if re.match(r"\$ |cugen [a-z]+ ", line)] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_command_in_a_sentence_has_options_that_there_are(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for name, words in re.findall(r"`cugen ([a-z]+)( [^`\n]*)?`", prose):
        main([name, "--help"])
        help = capsys.readouterr().out
        assert [word for word in re.findall(r"--[a-z-]+", words) if word not in help] == [], f"cugen {name}{words}"


def test_pages_that_are_slow_have_commands() -> None:
    assert {name_of(page) for page in PAGES if steps(page)} >= set(DATA["slow"])
