"""The last pass over the text changes where lines end, and nothing else."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cugen.emit.layout import tidy, tidy_lines

WIDTH = 112
names = st.text(alphabet="abcxyz_019", min_size=1, max_size=12).map(lambda name: f"n{name}")
values = st.recursive(
    names,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(("+", "-", "*", "/", "&&", "||", "<", "==")), inner).map(" ".join),
        st.tuples(inner, inner, inner).map(lambda abc: f"{abc[0]} ? {abc[1]} : {abc[2]}"),
        st.lists(inner, min_size=1, max_size=4).map(lambda args: f"call({', '.join(args)})"),
        inner.map(lambda value: f"({value})"),
        inner.map(lambda value: f"A[{value}]"),
    ),
    max_leaves=40,
)
comments = st.lists(names, max_size=30).map(lambda words: "// " + ", ".join(words))
lines = st.one_of(
    values.map(lambda value: f"const float x = {value};"),
    st.tuples(values, comments).map(lambda pair: f"x = {pair[0]};  {pair[1]}"),
    comments,
    st.lists(names, max_size=30).map(lambda words: "#define X " + " ".join(words)),
    st.sampled_from(["", "   ", "{", "}", "if (x) {"]),
)
texts = st.lists(st.tuples(st.integers(0, 5), lines).map(lambda pair: "    " * pair[0] + pair[1]), max_size=8).map(
    "\n".join
)


def meaning(text):
    """The tokens of each stretch of code and each comment or directive, whose ends are the ends of lines."""
    pieces = [[]]
    for line in text.splitlines():
        code, slashes, comment = line.partition("//")
        directive = code.lstrip().startswith("#")
        pieces[-1] += code.split()
        if slashes or directive:
            pieces += [[*comment.split(), "//" if slashes else "#"], []]
    return pieces


@given(texts)
def test_tokens_stay_in_their_order(text):
    assert meaning(tidy(text)) == meaning(text)


@given(texts)
def test_a_second_pass_changes_nothing_of_a_short_text(text):
    once = tidy(text)
    if all(len(line) <= WIDTH for line in text.splitlines()):
        assert tidy(once) == once


@given(texts)
def test_lines_end_in_no_blanks_and_no_two_are_empty(text):
    lines = tidy(text).split("\n")
    assert all(line == line.rstrip() for line in lines)
    assert not any(a == b == "" for a, b in pairwise(lines[:-1]))


@given(values)
def test_a_long_statement_is_broken_to_fit(value):
    broken = tidy(f"    x = {value};")
    assert all(len(line) <= WIDTH for line in broken.splitlines())
    assert all(line.startswith("        ") for line in broken.splitlines()[1:])


def test_a_line_is_broken_at_the_loosest_operator():
    left, right = " && ".join(["first_condition"] * 3), " && ".join(["second_condition"] * 3)
    assert tidy(f"    const bool holds = {left} || {right};").splitlines() == [
        f"    const bool holds = {left}",
        f"        || {right};",
    ]


def test_arguments_are_broken_after_a_comma():
    arguments = ", ".join(f"argument_number_{n}" for n in range(9))
    first, second = tidy(f"    function({arguments});").splitlines()
    assert first.endswith(",")
    assert second.startswith("        argument")


@pytest.mark.parametrize("line", ["// " + "word " * 40 + "end", "#define X " + "word " * 40 + "end", "x" * 200 + ";"])
def test_what_must_not_or_cannot_be_broken_stays(line):
    assert tidy(line) == line + "\n"


def test_a_comment_behind_code_stays_behind_it():
    line = "    const float a = A[row * K + k];  // " + "a long verdict, with commas + operators, " * 4 + "end"
    assert tidy(line) == line + "\n"


def test_blocks_begin_and_end_without_an_empty_line():
    assert tidy("\n\nint f()\n{\n\n    x;\n\n\n\n    y;\n\n}\n\n\n") == "int f()\n{\n    x;\n\n    y;\n}\n"


def test_pieces_of_a_line_share_what_is_known_of_it():
    long = "    x = " + " + ".join(["operand"] * 20) + ";"
    lines = tidy_lines([("a;", "first"), ("", ""), ("", ""), (long, "second")])
    assert [note for _, note in lines] == ["first", "", "second", "second"]


def test_a_string_is_never_broken():
    words = "one, two + three " * 6
    line = f'    call(first_argument, second_argument, "{words}", third_argument, "// {words}", last_argument);'
    pieces = tidy(line).splitlines()
    assert len(pieces) > 1
    assert all(piece.count('"') % 2 == 0 for piece in pieces)
    assert " ".join(piece.strip() for piece in pieces) == line.strip()


def test_a_comment_behind_a_string_with_slashes_is_still_a_comment():
    line = '    x = f("a // b") + ' + "y" * 40 + ";  // " + "words, more words " * 5
    assert tidy(line) == line.rstrip() + "\n"
