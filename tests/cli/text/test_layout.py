"""Text fits the width of a terminal; elsewhere it stays as it is."""

from __future__ import annotations

import io
import os

import pytest

from cugen.cli.text import layout

ROWS = (
    ("", "access", "memory", "cost", "verdict"),
    ("load", "A[m * K + k0 + tx]", "global", "4,557,000 sectors", "costly"),
    ("store", "As[ty][tx]", "shared", "814,968 wavefronts", "ideal"),
)
TABLE = [
    "         access              memory                cost  verdict",
    "  load   A[m * K + k0 + tx]  global   4,557,000 sectors  costly",
    "  store  As[ty][tx]          shared  814,968 wavefronts  ideal",
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Terminal:
    """A terminal whose width is the parameter."""
    stream = Terminal()
    monkeypatch.setattr(stream, "fileno", lambda: 7)
    monkeypatch.setattr(os, "get_terminal_size", lambda descriptor: os.terminal_size((request.param, 24)))
    return stream


@pytest.mark.parametrize(
    ("terminal", "columns"), [(40, 60), (60, 60), (97, 97), (0, 80)], indirect=["terminal"], ids=str
)
def test_the_width_is_that_of_the_terminal_from_60_columns_on(terminal: Terminal, columns: int) -> None:
    assert layout.columns(terminal) == columns


def test_a_terminal_that_does_not_know_its_width_has_80_columns() -> None:
    assert layout.columns(Terminal()) == 80
    assert layout.columns(io.StringIO()) is None


@pytest.mark.parametrize("terminal", [60], indirect=True)
@pytest.mark.parametrize(
    ("line", "lines"),
    [
        ("short", ["short"]),
        (f"a: {'word ' * 14}".rstrip(), [f"a: {'word ' * 11}".rstrip(), "  word word word"]),
        (f"  label    {'word ' * 12}".rstrip(), [f"  label    {'word ' * 10}".rstrip(), "           word word"]),
        (f"   = help: {'word ' * 12}".rstrip(), [f"   = help: {'word ' * 10}".rstrip(), "           word word"]),
        (f"  {'path/' * 20}", [f"  {'path/' * 20}"]),
        (f"12 | {'x + ' * 20}y", [f"12 | {'x + ' * 20}y"]),
        (f"   | ^^^^ {'word ' * 12}".rstrip(), [f"   | ^^^^ {'word ' * 10}".rstrip(), "   |      word word"]),
        (f"   | {' ' * 70}^^^ two words", [f"   | {' ' * 70}^^^", "   |    two words"]),
    ],
    ids=lambda value: value[:12].strip() if isinstance(value, str) else None,
)
def test_a_line_is_wrapped_below_its_label_and_source_is_not(terminal: Terminal, line: str, lines: list[str]) -> None:
    assert layout.fit(line, terminal).split("\n") == lines
    assert layout.fit(line, io.StringIO()) == line


@pytest.mark.parametrize("terminal", [60], indirect=True)
def test_colours_have_no_width(terminal: Terminal) -> None:
    line = " ".join(f"\033[32m{'x' * 9}\033[0m" for _ in range(6))
    assert layout.fit(line, terminal) == line
    assert layout.fit(f"{line} more", terminal) == f"{line}\n  more"


@pytest.mark.parametrize("terminal", [60], indirect=True)
def test_wrapped_text_stays_as_it_is_when_it_is_wrapped_again(terminal: Terminal) -> None:
    once = layout.fit(f"   = help: {'some words ' * 20}", terminal)
    assert layout.fit(once, terminal) == once


@pytest.mark.parametrize("terminal", [70], indirect=True)
def test_a_table_that_fits_is_as_elsewhere(terminal: Terminal) -> None:
    assert layout.table(ROWS, terminal, right=(3,), drop=(2,), wrap=1) == TABLE
    assert layout.table(ROWS, io.StringIO(), right=(3,), drop=(2,), wrap=1) == TABLE


@pytest.mark.parametrize("terminal", [62], indirect=True)
def test_a_wide_table_loses_a_column(terminal: Terminal) -> None:
    assert layout.table(ROWS, terminal, right=(3,), drop=(2,), wrap=1) == [
        "         access                            cost  verdict",
        "  load   A[m * K + k0 + tx]   4,557,000 sectors  costly",
        "  store  As[ty][tx]          814,968 wavefronts  ideal",
    ]


@pytest.mark.parametrize("terminal", [60], indirect=True)
def test_a_long_cell_is_wrapped(terminal: Terminal) -> None:
    rows = (ROWS[0], ("load", "values[row * columns + column + 1]", *ROWS[1][2:]))
    assert layout.table(rows, terminal, right=(3,), drop=(2,), wrap=1) == [
        "        access                                 cost  verdict",
        "  load  values[row * columns +    4,557,000 sectors  costly\n        column + 1]",
    ]


@pytest.mark.parametrize("terminal", [60], indirect=True)
def test_without_room_for_a_column_it_has_lines_of_its_own(terminal: Terminal) -> None:
    rows = (("access", "cost"), ("values[row * columns + column]", "1 sector" * 6))
    assert layout.table(rows, terminal) == [
        "  access\n    cost",
        f"  values[row * columns + column]\n    {'1 sector' * 6}",
    ]


@pytest.mark.parametrize("terminal", [60], indirect=True)
def test_paragraphs_and_lists_are_filled_and_code_is_not(terminal: Terminal) -> None:
    page = f"# Title\n\nSome words\nand more.\n\n- {'item ' * 14}\n- next\n\n```yaml\n{'code ' * 15}\nline\n```\n"
    filled = layout.paragraphs(page, terminal).split("\n")
    assert filled[:3] == ["# Title", "", "Some words and more."]
    assert filled[4:7] == [f"- {'item ' * 11}".rstrip(), "  item item item", "- next"]
    assert filled[8:] == ["```yaml", "code " * 15, "line", "```", ""]
    assert layout.paragraphs(page, io.StringIO()) == page
