"""The grammar that the manual prints is the parser's: whatever it derives is read."""

from __future__ import annotations

import random
import re
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.spec.diagnostics import Reporter
from cugen.spec.parse.grammar import parse_statements
from cugen.spec.parse.lexer import KEYWORDS
from cugen.spec.parse.syntax import Text
from tests.drawn import examples

MANUAL = Path(__file__).parents[2] / "docs" / "spec.md"
TOKEN = re.compile(r'"[^"]*"|[A-Za-z]+|[=,|;()\[\]{}]')
DEEPEST = 30
OPENING, CLOSING = ("(", "[", "{"), (")", "]", "}")
SPELLINGS = {
    "NUMBER": ["0", "12", "1_000", "0xff", "0.5", ".5", "1e-3", "2."],
    "NAME": ["x", "A", "sum", "i2", "_k"],
}


def rules() -> dict[str, list[str]]:
    """Each rule's name with the tokens of its right side."""
    match = re.search(r"```ebnf\n(.*?)```", MANUAL.read_text(), re.DOTALL)
    assert match
    parts = [TOKEN.findall(part) for part in re.split(r";\n", match[1]) if part.strip()]
    return {part[0]: part[2:] for part in parts}


class Deriver:
    """Derives one sentence; beyond `DEEPEST` levels first alternatives are taken, and options stay away."""

    def __init__(self, grammar: dict[str, list[str]], source: random.Random) -> None:
        self.grammar = grammar
        self.source = source

    def words(self, tokens: list[str], depth: int) -> list[str]:
        """The words of one alternative of a right side, or of what stands between brackets."""
        choices = split(tokens, "|")
        chosen = choices[0] if depth > DEEPEST else self.source.choice(choices)
        return [word for part in split(chosen, ",") for word in self.part(part, depth + 1)]

    def part(self, tokens: list[str], depth: int) -> list[str]:
        first, inner = tokens[0], tokens[1:-1]
        if first == "(":
            return self.words(inner, depth)
        if first in ("[", "{"):
            taken = depth <= DEEPEST and self.source.random() < 0.25
            return self.words(inner, depth) if taken else []
        assert len(tokens) == 1, f"{tokens} is not EBNF"
        if first in self.grammar:
            return self.words(self.grammar[first], depth)
        return [self.source.choice(SPELLINGS[first]) if first in SPELLINGS else first.strip('"')]


def split(tokens: list[str], separator: str) -> list[list[str]]:
    """The stretches between separators that no bracket encloses."""
    parts: list[list[str]] = [[]]
    nesting = 0
    for token in tokens:
        nesting += (token in OPENING) - (token in CLOSING)
        if token == separator and nesting == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def read(text: str) -> Reporter:
    report = Reporter("spec.yaml", text)
    parse_statements(Text(text, tuple((1, column + 1) for column in range(len(text) + 1))), report)
    return report


@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(100), deadline=None)
def test_the_parser_reads_whatever_the_printed_grammar_derives(seed: int) -> None:
    words = Deriver(rules(), random.Random(seed)).part(["statement"], 0)
    text = " ".join(words)
    report = read(text)
    twice = [d for d in report.diagnostics if d.code == "CG1107"]  # an option given twice, which no grammar can say
    assert [d for d in report.diagnostics if d not in twice] == [], text


def test_the_printed_grammar_names_every_keyword_and_rule() -> None:
    grammar = rules()
    words = {token for tokens in grammar.values() for token in tokens}
    assert {f'"{keyword}"' for keyword in KEYWORDS} <= words
    named = {word for word in words if word[0].isalpha() and word.islower()}
    assert named <= set(grammar)
    assert set(grammar) - named == {"block"}


def test_what_the_printed_grammar_does_not_derive_is_refused() -> None:
    for text in (
        "y = a not b",
        "y = (a",
        "y = x[]",
        "y = f(a=1, b)",
        "y = a if b",
        "1 = x",
        "y = -",
        "y == x",
        "y[i] x",
    ):
        assert read(text).failed, text
