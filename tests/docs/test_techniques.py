"""docs/techniques.md lists what texts on GPU memory teach; each line has a command, which is run here, or a test."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.docs.techniques import NUMBERS, PAGE, Technique, execute, tables, techniques

LINES = techniques()
ON_ANY_MACHINE = [line for line in LINES if line.cugen and not line.needs_gpu]


@pytest.mark.sampled(38)
@pytest.mark.whole
@pytest.mark.parametrize("line", ON_ANY_MACHINE, ids=str)
def test_a_command_shows_what_is_taught(line: Technique, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    status = execute(line, tmp_path)
    out, err = capfd.readouterr()
    assert status == line.status, err
    printed = (tmp_path / line.file).read_text() if line.file else out + err
    assert line.missing(printed) == [], printed


def test_every_number_is_there_once() -> None:
    assert sorted(line.row for line in LINES) == list(NUMBERS)


@pytest.mark.parametrize("line", LINES, ids=str)
def test_a_line_has_a_command_with_what_it_shows_or_a_test_or_is_about_hardware_alone(line: Technique) -> None:
    assert bool(line.cugen) == bool(line.shows)
    assert bool(line.cugen or line.test) != line.is_hardware


@pytest.mark.parametrize("line", [line for line in LINES if line.test], ids=str)
def test_a_test_that_is_named_is_there(line: Technique) -> None:
    path, _, name = line.test.partition("::")
    assert re.search(rf"^def {name}\(", (ROOT / path).read_text(), re.MULTILINE)


def test_the_page_is_made_of_the_list(golden_part: Callable[[Path, str, str], None]) -> None:
    golden_part(PAGE, "techniques", tables())


def test_what_a_command_does_not_show_is_missed() -> None:
    line = Technique("Occupancy", 2, "a block is lost", cugen="inspect", shows=("2 blocks, 32 warps", "3 blocks"))
    assert line.missing("occupancy  66.7%: 2 blocks,\n             32 warps per SM") == ["3 blocks"]
