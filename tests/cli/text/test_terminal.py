"""Colour and progress are for a person at a terminal, and only there."""

from __future__ import annotations

import io
import re
import sys

import pytest

from cugen.cli.text import terminal


class _Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colour_is_for_terminals_that_do_not_mind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert terminal.paint("x", "red", _Tty()) == "\033[31;1mx\033[0m"
    assert terminal.paint("x", "red", io.StringIO()) == "x"
    monkeypatch.setenv("TERM", "dumb")
    assert terminal.paint("x", "red", _Tty()) == "x"
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert terminal.paint("x", "red", _Tty()) == "x"


def test_painted_findings_say_the_same_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    text = "error[CG1028]: no\n --> a.yaml:1:2\n  |\n1 | x: y\n  | ^^ this\n  = help: z\n"
    painted = terminal.paint_findings(text, _Tty())
    assert painted.count("\033[0m") == 4
    assert re.sub(r"\033\[[\d;]*m", "", painted) == text
    assert terminal.paint_findings(text, io.StringIO()) == text


def test_progress_passes_all_items_on_and_cleans_up(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = _Tty()
    monkeypatch.setattr(sys, "stderr", stream)
    assert list(terminal.progress(iter("abc"), 3, "counting")) == ["a", "b", "c"]
    assert "3/3" in stream.getvalue()
    assert stream.getvalue().endswith("\r\033[K")


@pytest.mark.parametrize(("stream", "quiet"), [(io.StringIO(), False), (_Tty(), True)])
def test_progress_is_silent_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, quiet: bool
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    assert list(terminal.progress(iter("abc"), 3, "counting", quiet=quiet)) == ["a", "b", "c"]
    assert stream.getvalue() == ""


def test_what_is_printed_takes_the_place_of_a_progress_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = _Tty()
    monkeypatch.setattr(sys, "stderr", stream)
    for item in terminal.progress(iter("ab"), 2, "counting"):
        terminal.note(item)
    first, second, last = stream.getvalue().split("\r\033[K")
    assert first.startswith("\rcounting [")
    assert second.startswith("a\n\rcounting [")
    assert last == "b\n"


def test_coloured_code_is_the_same_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    code = '#include <x>\nint f(); // "y"\n/* a\n b */ float g; /* c\n*/ char* s = "//";'
    painted = terminal.paint_code(code, _Tty())
    assert "\033[34;1mint\033[0m f();" in painted
    assert "\033[2m b */\033[0m \033[34;1mfloat\033[0m" in painted
    assert re.sub(r"\033\[[\d;]*m", "", painted) == code
    assert terminal.paint_code(code, io.StringIO()) == code
