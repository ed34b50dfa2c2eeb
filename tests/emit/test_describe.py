"""Heads of generated files: what the user wrote stays inside its comment."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cugen.emit.describe import harmless, ideal_accesses
from cugen.emit.layout import tidy
from cugen.kernel import generate
from cugen.spec.load import load, load_text

SPECS = Path(__file__).parents[2] / "specs"

NASTY = [
    "ends */ int x; /* begins",
    "ends with a backslash \\",
    "ends with many \\\\\\",
    "a trigraph ??/",
    "more of them ???/ ??' ??!",
    "two lines\nint injected;",
    "carriage\rreturn, form\ffeed, separators\u2028\u2029 and\x85 next line",
    "bidirectional \u202e gnp.exe \u2066 overrides \u2069",
    "zero\u200bwidth, \ufeff mark, \x00 nothing, \x1b[31m colours",
    "// a comment in a comment /* and another",
    "#define x y",
    "é, 漢字 and 😀 stay",
    "*\\\n/",
    "wrap " * 40 + "\\ " * 30 + "end",
    "x" * 300 + "\\" * 9,
]


@given(st.text(max_size=60))
def test_harmless_text_is_one_line_that_ends_where_it_ends(text):
    actual = harmless(text)
    assert actual.isprintable()
    assert "*/" not in actual
    assert not actual.endswith("\\")
    assert not re.search(r"\?\?[=/'()!<>-]", actual)


@given(st.text(alphabet="ab */?\\-=/!\n", max_size=40))
def test_harmless_text_stays_harmless(text):
    assert harmless(harmless(text)) == harmless(text)


@given(st.text(alphabet=st.characters(categories=("L", "N", "P", "S")), max_size=40))
def test_plain_text_is_left_alone(text):
    if not re.search(r"\*/|\?\?|\\$", text):
        assert harmless(text) == text.strip()


def spec_with(text):
    """A spec with this text wherever a user may write freely. The loader refuses some of it, which is no excuse."""
    (spec,) = load_text(
        "cugen: 1\nkernel: tried\n"
        "arrays:\n  A: {shape: [8], dtype: float32}\n  Y: {shape: [8], dtype: float32}\ncompute: Y[i] = A[i] * 2\n"
    )
    (statement,) = spec.statements
    return replace(spec, doc=text, file=text, statements=(replace(statement, text=text),))


def code_of(source):
    """What a compiler sees: lines joined at backslashes, trigraphs replaced, comments taken out."""
    text = source.replace("??/", "\\").replace("\\\n", "")
    return [line for line in re.sub(r"//[^\n]*", "", text).split("\n") if line.strip()]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("doc", NASTY, ids=range(len(NASTY)))
def test_no_description_changes_the_program(doc):
    plain, actual = generate(spec_with("plain")), generate(spec_with(doc))
    assert code_of(actual.source) == code_of(plain.source)
    assert code_of(actual.header) == code_of(plain.header)
    assert code_of(actual.typed_header) == code_of(plain.typed_header)
    for text in (actual.source, actual.header, actual.typed_header):
        assert all(line.isprintable() for line in text.split("\n"))
        assert not any(line.endswith("\\") for line in text.split("\n"))


@pytest.mark.slow
def test_no_description_makes_a_compiler_warn(batch):
    kernels = [generate(spec_with(doc)) for doc in NASTY]
    sources = [text for kernel in kernels for text in (kernel.header, kernel.typed_header)]
    heads = "\n".join(line for source in sources for line in source.splitlines() if line.startswith("//"))
    assert batch(
        f'{heads}\n#include <cstdio>\nint main() {{ puts("run"); }}', "-trigraphs", "-Wcomment", "-Werror"
    ) == ["run"]


def test_the_words_of_a_statement_are_shown():
    (spec,) = load_text(
        "cugen: 1\nkernel: tried\ndoc: twice\narrays:\n  A: {shape: [8], dtype: float32}\n"
        "  Y: {shape: [8], dtype: float32}\ncompute: |\n  Y[i] = A[i]   *  2   # doubled */ \\\n"
    )
    lines = generate(spec).source.splitlines()
    assert lines[0] == "// tried: twice"
    assert lines[2] == "// computes  Y[i] = A[i] * 2"
    assert "// launch    grid (1, 1, 1), block (256, 1, 1); family " in "\n".join(lines)


def test_what_arrays_are_is_said_in_full():
    (spec,) = load_text(
        "cugen: 1\nkernel: tried\nparams: {M: dynamic, N: 6}\narrays:\n"
        "  A: {shape: [M, N], dtype: float16, pitch: 8, boundary: {value: -2.5}}\n"
        "  B: {shape: [N], dtype: int8, memory: constant, boundary: clamp}\n"
        "  Y: {shape: [M, N], dtype: float32}\n"
        "compute: Y[i, j] = A[i - 1, j] + B[j - 1]\n"
    )
    lines = generate(spec).source.splitlines()
    assert "// params    M (dynamic), N = 6" in lines
    assert "// A         input, float16 [M, 6], strides (8, 1), outside: -2.5" in lines
    assert "// B         input, int8 [6], constant, outside: clamp" in lines
    assert "// Y         output, float32 [M, 6]" in lines


@pytest.mark.parametrize(
    ("param", "said"),
    [
        ("12", "N = 12"),
        ("dynamic", "N (dynamic)"),
        ("{range: [4, 4096]}", "N (dynamic, 4 to 4096)"),
        ("{multiple_of: 4, default: 64}", "N (dynamic, multiples of 4)"),
        ("{range: [4, 4096], multiple_of: 4}", "N (dynamic, 4 to 4096, multiples of 4)"),
    ],
)
def test_the_values_of_a_param_are_said(param, said):
    (spec,) = load_text(
        f"cugen: 1\nkernel: twice\nparams: {{N: {param}}}\narrays:\n"
        "  x: {shape: [N], dtype: float32}\n  y: {shape: [N], dtype: float32}\ncompute: y[i] = 2 * x[i]\n"
    )
    assert f"// params    {said}" in generate(spec).source.splitlines()


def test_ideal_accesses_are_aligned_and_equal_ones_counted():
    claims = [("As[ty][k]", "1 wavefront"), ("Bs[k][tx + 16]", "2 sectors"), ("As[ty][k]", "1 wavefront")]
    assert ideal_accesses(claims) == [
        "",
        "Ideal accesses, without a remark in the code:",
        "  As[ty][k]       1 wavefront, at 2 places",
        "  Bs[k][tx + 16]  2 sectors",
    ]


def test_a_long_access_does_not_widen_the_table():
    claims = [("A[" + "very_long_index + " * 6 + "1]", "4 sectors"), ("As[ty][k]", "1 wavefront")]
    assert ideal_accesses(claims)[2:] == [f"  {claims[0][0]}", "      4 sectors", "  As[ty][k]  1 wavefront"]


def test_the_reason_of_the_worst_access_is_not_broken():
    source = generate(load(SPECS / "depthwise.yaml")).source
    worst = next(line for line in source.splitlines() if "worst:" in line)
    assert "(" not in worst.rpartition(",")[2]
    assert "\n//           (32 bytes in 16 runs)\n" in source


def test_a_file_with_several_kernels_names_the_kernel_of_ideal_accesses():
    assert ideal_accesses([("x[i]", "4 sectors")], "sums")[1] == "Ideal accesses of sums, without a remark in the code:"


def test_a_kernel_without_ideal_accesses_has_no_table():
    assert ideal_accesses([]) == []


def test_a_long_access_moves_no_claim_beyond_the_line():
    long = f"partials[{'n' * 60}]"
    claim = "4 sectors, ideal 4 (128 contiguous bytes)"
    rows = ideal_accesses([(long, claim), ("x[i]", claim)])[2:]
    assert rows == [f"  {long}  {claim}", f"  x[i]{' ' * 68}{claim}"]
    assert all(len(f"// {row}") <= 120 for row in rows)


def test_a_long_description_is_broken_into_lines():
    kernel = generate(spec_with("word " * 60))
    for text in (kernel.source, kernel.header):
        assert tidy(text) == text
        assert max(map(len, text.splitlines())) <= 120
