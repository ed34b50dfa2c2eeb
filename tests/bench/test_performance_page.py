"""The page of performance begins with ten lines, whose figures are in the sections of the lists that they name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "performance.md").read_text()
ROWS = re.findall(r"^\| \[[^]]*\]\(measurements\.md#([\w-]+)\)[^|]*\|[^|]*\|(.*)\|$", PAGE, re.MULTILINE)
COMMANDS = re.findall(r"^(\d+)\. (.*)$", PAGE.split("## The protocol")[0], re.MULTILINE)
FIGURE = re.compile(r"\b\d+\.\d+\b|\b\d{2,3}\b(?=[^.\d×-])")


def section(anchor: str) -> str:
    """A section of the lists, with those inside it, by its anchor."""
    text, level = "", 0
    for part in re.split(r"^(?=#+ )", (DOCS / "measurements.md").read_text(), flags=re.MULTILINE):
        heading = part.partition("\n")[0]
        depth = len(heading.partition(" ")[0])
        if level and depth <= level:
            break
        title = re.sub(r"[^\w\- ]", "", heading.lstrip("# ").lower()).replace(" ", "-")
        level = level or depth * (title == anchor)
        text += part if level else ""
    return text


def test_the_table_has_ten_lines_with_a_command_each() -> None:
    assert len(ROWS) == 10
    assert [int(number) for number, _ in COMMANDS] == list(range(1, 11))


@pytest.mark.parametrize(("anchor", "cells"), ROWS, ids=[f"{n}-{anchor}" for n, (anchor, _) in enumerate(ROWS, 1)])
def test_the_figures_of_a_line_are_those_of_its_list(anchor: str, cells: str) -> None:
    text = section(anchor)
    figures = FIGURE.findall(cells.rsplit("|", 1)[0])
    assert len(figures) >= 2
    assert [figure for figure in figures if figure not in text] == []


@pytest.mark.parametrize(("number", "command"), COMMANDS)
def test_a_command_of_the_table_is_that_of_its_list(number: str, command: str) -> None:
    anchor, _ = ROWS[int(number) - 1]
    for words in re.findall(r"`(python [^`]*)`", command):
        assert words in section(anchor)


def test_the_readme_has_figures_of_the_table() -> None:
    readme = (DOCS.parent / "README.md").read_text().split("## What is fast")[1].split("\n## ")[0]
    table = [float(figure) for figure in re.findall(r"\b\d\.\d+\b", PAGE)]
    shown = [float(figure) for figure in re.findall(r"\b\d\.\d+\b", readme)]
    assert len(shown) > 10
    assert [figure for figure in shown if not any(abs(figure - exact) <= 0.00501 for exact in table)] == []
