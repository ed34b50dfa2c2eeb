"""The last pass over the text changes where lines end, and nothing else."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cugen.emit.layout import LINE_WIDTH, tidy, tidy_lines, unwrapped

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
    """The tokens of each stretch of code and of comments, and of each directive and each comment after code, whose ends
    are the ends of lines."""
    pieces = [("code", [])]
    for line in filter(str.strip, text.splitlines()):
        code, slashes, comment = line.partition("//")
        kind = "comment" if slashes and not code.strip() else "code"
        if pieces[-1][0] != kind or code.lstrip().startswith("#"):
            pieces.append((kind, []))
        pieces[-1][1].extend(code.split() if kind == "code" else comment.split())
        if kind == "code" and slashes:
            pieces += [("end", comment.split()), ("code", [])]
    return [piece for piece in pieces if piece[1]]


@given(texts)
def test_tokens_stay_in_their_order(text):
    assert meaning(tidy(text)) == meaning(text)


@given(texts)
def test_a_second_pass_changes_nothing_of_a_short_text(text):
    once = tidy(text)
    if all(len(line) <= LINE_WIDTH for line in text.splitlines()):
        assert tidy(once) == once


@given(texts)
def test_lines_end_in_no_blanks_and_no_two_are_empty(text):
    lines = tidy(text).split("\n")
    assert all(line == line.rstrip() for line in lines)
    assert not any(a == b == "" for a, b in pairwise(lines[:-1]))


@given(values)
def test_a_long_statement_is_broken_to_fit(value):
    broken = tidy(f"    x = {value};")
    assert all(len(line) <= LINE_WIDTH for line in broken.splitlines())
    assert all(line.startswith("        ") for line in broken.splitlines()[1:])


def test_a_line_is_broken_at_the_loosest_operator():
    left, right = " && ".join(["first_condition"] * 3), " && ".join(["second_condition"] * 3)
    assert tidy(f"    const bool holds = {left} || {right};").splitlines() == [
        f"    const bool holds = {left}",
        f"        || {right};",
    ]


def test_a_choice_is_broken_before_its_first_value_then_before_its_second():
    condition, first, second = " && ".join(["condition"] * 5), " + ".join(["first"] * 8), " + ".join(["second"] * 8)
    assert tidy(f"    const float x = {condition} ? {first[:20]} : {second[:22]};").splitlines() == [
        f"    const float x = {condition}",
        f"        ? {first[:20]} : {second[:22]};",
    ]
    assert tidy(f"    const float x = {condition} ? {first} : {second};").splitlines() == [
        f"    const float x = {condition}",
        f"        ? {first}",
        f"        : {second};",
    ]


def test_a_condition_in_more_brackets_is_indented_further():
    outer, inner, innermost = "outer " * 15, "inner " * 8, "innermost " * 11
    text = f"if ({'_'.join(outer.split())} && ({'_'.join(inner.split())} || {'_'.join(innermost.split())}))"
    first, second, third = tidy(text).splitlines()
    assert (first[:4], second[:8], third[:11]) == ("if (", "    && (", "        || ")


def test_a_swizzled_subscript_is_broken_before_its_exclusive_or():
    row, column = "_".join(["row"] * 13), "_".join(["column"] * 6)
    broken = tidy(f"    x = f(A[{row}][({column} + 8 * j) ^ (8 * (row % 8))]);").splitlines()
    assert [line.strip() for line in broken[1:]] == ["^ (8 * (row % 8))]);"]


def test_arguments_are_broken_after_a_comma():
    arguments = ", ".join(f"argument_number_{n}" for n in range(9))
    first, second = tidy(f"    function({arguments});").splitlines()
    assert first.endswith(",")
    assert second.startswith("        argument")


@given(st.integers(0, 30), comments)
def test_a_long_comment_is_broken_to_fit_and_aligned(indent, comment):
    margin = " " * indent
    broken = tidy(f"{margin}{comment}").splitlines()
    assert all(len(line) <= LINE_WIDTH for line in broken)
    assert all(line.startswith(f"{margin}//") for line in broken)
    words = [word for line in broken for word in line.strip().removeprefix("//").split()]
    assert words == comment.removeprefix("//").split()


def test_a_long_comment_goes_on_under_its_text():
    first, second = tidy("//   " + "word " * 30 + "end").splitlines()
    assert len(first) == 119
    assert second.startswith("//   word")


def test_no_word_is_alone_on_the_last_line_of_a_comment():
    lines = tidy("// " + "word " * 24 + "end").splitlines()
    assert [len(line) for line in lines] == [92, 36]
    assert tidy("// " + "x" * 100 + " " + "y" * 20).splitlines() == [f"// {'x' * 100}", f"// {'y' * 20}"]


def test_no_line_of_a_broken_comment_ends_in_a_backslash():
    broken = tidy("// " + "one \\ " * 30).splitlines()
    assert len(broken) > 1
    assert not any(line.endswith("\\") for line in broken)


def test_a_word_longer_than_a_line_stays_whole():
    word = "x" * 200
    assert tidy(f"// see {word} for more").splitlines() == ["// see", f"// {word}", "// for more"]


@given(comments)
def test_a_broken_paragraph_is_found_in_one_line_again(comment):
    head = f"// title\n//\n{comment}\n//\n// end\n"
    assert unwrapped(tidy(head)) == tidy("// title\n//\n") + f"{comment.rstrip()}\n//\n// end\n"


def test_a_conditional_argument_is_not_broken_where_a_comma_is():
    first, second = tidy(
        f"    copy(&{'a' * 40}[i], &{'b' * 40}[j], 16, column < columns && row < rows ? 0 : 16);"
    ).splitlines()
    assert first.endswith("16,")
    assert second == "        column < columns && row < rows ? 0 : 16);"


def test_a_value_that_fits_goes_to_the_next_line():
    value = f"call({'a' * 50}, {'b' * 50})"
    assert tidy(f"    fragment.data[0] = {value};").splitlines() == ["    fragment.data[0] =", f"        {value};"]
    assert tidy(f"    fragment.data[0] += {value};").splitlines()[0] == "    fragment.data[0] +="


def test_a_longer_value_is_broken_between_its_arguments():
    arguments = ", ".join(f"argument_number_{n}" for n in range(9))
    first, second = tidy(f"    fragment.data[0] = call({arguments});").splitlines()
    assert first.startswith("    fragment.data[0] = call(argument")
    assert second.startswith("        argument")


def test_a_loop_is_broken_between_its_parts():
    index = "first_index_of_the_main_loop"
    line = f"for (int {index} = 0; {index} < last; {index} += 8, stage = stage < 3 ? stage + 1 : 0) {{"
    assert tidy(line).splitlines()[0].endswith(";")


def test_a_subscript_is_broken_where_nothing_else_can_be():
    subscript = " + ".join(["subscript"] * 9)
    assert tidy(f"    fragments[k % 2][u] = A[{subscript}];").splitlines() == [
        "    fragments[k % 2][u] =",
        f"        A[{subscript}];",
    ]
    assert len(tidy(f"    fragments[k % 2][u] = A[{subscript} + {subscript}];").splitlines()) > 1


@pytest.mark.parametrize("line", ["#define X " + "word " * 40 + "end", "x" * 200 + ";"])
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
    broken = tidy(line).splitlines()
    assert len(broken) > 1
    assert all(part.count('"') % 2 == 0 for part in broken)
    assert " ".join(part.strip() for part in broken) == line.strip()


def test_a_comment_behind_a_string_with_slashes_is_still_a_comment():
    line = '    x = f("a // b") + ' + "y" * 40 + ";  // " + "words, more words " * 5
    assert tidy(line) == line.rstrip() + "\n"


def test_a_reason_at_the_end_of_a_comment_stays_in_one_line():
    claim = "// Bs[stage][b_n][(b_k + r) ^ (16 * (b_n % 8))]: 4 wavefronts, ideal 1"
    for indent in range(0, 60, 4):
        broken = tidy(f"{' ' * indent}{claim} (lanes 0 and 8: words 16 and 272, bank 16)").splitlines()
        assert sum("(lanes 0 and 8: words 16 and 272, bank 16)" in line for line in broken) == 1
