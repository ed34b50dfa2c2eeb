"""Sentences as C++ expressions: what comes out when they are compiled and run."""

from __future__ import annotations

from collections.abc import Callable

from cugen.emit.host.sentences import quoted, terms


def test_placeholders_become_values_and_text_between_them_literals() -> None:
    actual = terms("`{name}` is {value}", {"name": "name", "value": "std::to_string(value)"})
    assert actual == ['std::string("`")', "name", '"` is "', "std::to_string(value)"]
    assert terms("{a} = {b}", {"a": "a", "b": "b"}) == ["std::string(a)", '" = "', "b"]


def test_long_sentences_are_cut_behind_blanks() -> None:
    pieces = terms("word " * 40 + "end", {})
    assert all(len(piece) < 100 for piece in pieces)
    assert "".join(piece.removeprefix("std::string(").strip('")') for piece in pieces) == "word " * 40 + "end"


def test_the_compiled_sentence_is_the_sentence(batch: Callable[..., list[str]]) -> None:
    sentences = {
        'quotes " and \\ and {name}.': 'quotes " and \\ and A.',
        "{name}{name} {value}": "AA 7",
        f"{'a long one ' * 20}{{value}}": f"{'a long one ' * 20}7",
    }
    values = {"name": "name", "value": "std::to_string(value)"}
    lines = [f"    std::puts(({' + '.join(terms(text, values))}).c_str());" for text in sentences]
    start = [
        "#include <cstdio>",
        "#include <string>",
        "int main()",
        "{",
        '    const char* name = "A";',
        "    int value = 7;",
    ]
    assert batch("\n".join([*start, *lines, "}"])) == list(sentences.values())


def test_quotes_are_escaped() -> None:
    assert quoted('a "b" \\') == r'"a \"b\" \\"'
