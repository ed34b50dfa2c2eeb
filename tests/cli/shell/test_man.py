"""A manual page for each command has all its options, and `man` has nothing against it."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from cugen.cli.main import COMMANDS, add_arguments, command_module
from cugen.cli.shell.man import man_pages

PAGES = man_pages()


def plain(page: str) -> str:
    """A page without the escapes of roff."""
    return re.sub(r"\\(?:f[BIR]|&)", "", page).replace(r"\-", "-").replace(r"\e", "\\")


def test_there_is_a_page_for_each_command_and_one_of_all() -> None:
    assert set(PAGES) == {"cugen.1", *(f"cugen-{name}.1" for name in COMMANDS)}
    overview = plain(PAGES["cugen.1"])
    assert [f"cugen-{name}(1)\n{what}" for name, what in COMMANDS.items() if f"{name}(1)\n{what}" not in overview] == []
    assert "\n4\nan internal error of cugen" in overview


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_has_each_argument_with_its_help(name: str) -> None:
    page = plain(PAGES[f"cugen-{name}.1"])
    parser = argparse.ArgumentParser(f"cugen {name}")
    add_arguments(command_module(name), parser)
    for action in parser._actions:
        name_of = re.escape((action.option_strings or [str(action.metavar)])[-1])
        (head,) = re.findall(rf"^\.TP\n((?:.*, )?{name_of}(?: .*)?)$", page, re.MULTILINE)
        assert all(option in head for option in action.option_strings)
        assert f"{head}\n{action.help}\n" in page


def test_nothing_of_a_text_is_markup() -> None:
    for page in PAGES.values():
        for line in page.splitlines():
            assert re.match(r"\.(?:TH|SH|TP|B)\b", line) or line[0] not in ".'", line


@pytest.mark.slow
def test_the_programs_of_this_machine_that_read_pages_have_no_warning(tmp_path: Path) -> None:
    commands = {"groff": ["-man", "-ww", "-z", "-K", "utf8"], "mandoc": ["-T", "lint", "-W", "warning"]}
    for name, page in PAGES.items():
        (tmp_path / name).write_text(page)
        for program, words in commands.items():
            if shutil.which(program):
                command = [program, *words, str(tmp_path / name)]
                done = subprocess.run(command, capture_output=True, text=True, timeout=60)
                said = [line for line in (done.stdout + done.stderr).splitlines() if "missing date" not in line]
                assert said == []
