"""Tokens have positions; foreign operators are rejected with their equivalent."""

from __future__ import annotations

import pytest

from cugen.spec.diagnostics import Reporter
from cugen.spec.parse.lexer import tokenize
from cugen.spec.parse.syntax import Text


def scan(source: str) -> tuple[list[str] | None, Reporter]:
    report = Reporter("test", source)
    text = Text(source, tuple((1, column) for column in range(1, len(source) + 2)))
    tokens = tokenize(text, report)
    return (None if tokens is None else [token.text for token in tokens[:-1]]), report


@pytest.mark.parametrize(
    ("source", "tokens"),
    [
        ("a<=b<<c", ["a", "<=", "b", "<<", "c"]),
        ("x**-2//3", ["x", "**", "-", "2", "//", "3"]),
        ("A[i,j]+=1 # comment", ["A", "[", "i", ",", "j", "]", "+=", "1"]),
        ("1e-3 .5 5. 0xfF 1_000 010", ["1e-3", ".5", "5.", "0xfF", "1_000", "010"]),
        ("not_a_keyword not", ["not_a_keyword", "not"]),
    ],
)
def test_the_longest_token_is_read(source: str, tokens: list[str]) -> None:
    assert scan(source)[0] == tokens


@pytest.mark.parametrize(
    ("source", "value"),
    [
        pytest.param("010", 10, id="010"),
        pytest.param("0x10", 16, id="0x10"),
        pytest.param("1_000", 1000, id="1_000"),
        pytest.param("1e3", 1000.0, id="1e3"),
        pytest.param(".5", 0.5, id=".5"),
        pytest.param("9" * 40, 10**40 - 1, id="40 digits"),
    ],
)
def test_numbers_mean_what_they_look_like(source: str, value: float) -> None:
    report = Reporter("test", source)
    tokens = tokenize(Text(source, tuple((1, c) for c in range(len(source) + 1))), report)
    assert tokens is not None
    assert tokens[0].value == value
    assert type(tokens[0].value) is type(value)


@pytest.mark.parametrize("source", ["12ab", "1__0", "1_", "1e999", "9" * 41, "0xg", "1.2.3x"])
def test_what_only_resembles_a_number_is_rejected(source: str) -> None:
    tokens, report = scan(source)
    assert tokens is None
    assert {d.code for d in report.diagnostics} == {"CG1102"}


@pytest.mark.parametrize(
    ("source", "cure"),
    [
        ("a && b", "`and`"),
        ("a || b", "`or`"),
        ("!a", "`not`"),
        ("a ? b : c", "if"),
        ("A @ B", "sum"),
        ("a · b", "`*`"),
        ("a ≤ b", "`<=`"),
        ("x²", "** 2"),
        ("i++", "+= 1"),
        ("'a'", "quotes"),
        ("a; b", "line"),
        ("x -= 1", "+="),
    ],
)
def test_operators_of_other_languages_are_rejected_with_the_equivalent(source: str, cure: str) -> None:
    tokens, report = scan(source)
    assert tokens is None
    assert report.diagnostics[0].code == "CG1109"
    assert cure in report.diagnostics[0].help


def test_every_bad_character_is_reported_at_its_position() -> None:
    _, report = scan("a ` b ` c")
    assert [d.span.column for d in report.diagnostics] == [3, 7]
