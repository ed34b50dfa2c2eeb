"""A kernel runs on some rows at a time where a row depends on nothing but itself."""

from __future__ import annotations

import pytest

from cugen.emit.host.program.split import make_split
from cugen.spec.diagnostics import SpecError

HEAD = """
cugen: 1
kernel: rows
params: {M: {range: [1, 100000], default: 1000}, N: 64}
arrays:
  x: {shape: [M, N], dtype: float32%s}
  w: {shape: [N], dtype: float32}
  y: {shape: [M, N], dtype: float32}
compute: """


def split_of(kernel_of, text):
    kernel = kernel_of(text)
    return make_split(kernel.context.original, kernel.manifest, {"M": 1000, "N": 64})


def test_arrays_with_a_row_for_each_are_split_the_others_are_shared(kernel_of):
    split = split_of(kernel_of, HEAD % "" + "y[m, n] = w[n] * x[m, n]")
    assert (split.rows, split.arrays) == ("M", {"x", "y"})


def test_parts_begin_where_arrays_are_aligned_and_the_param_allows(kernel_of):
    text = (
        (HEAD % "" + "y[m, n] = w[n] * x[m, n]")
        .replace("N: 64", "N: 3")
        .replace("[1, 100000]", "[1, 100000], multiple_of: 3")
    )
    kernel = kernel_of(text.replace("default: 1000", "default: 999"))
    split = make_split(kernel.context.original, kernel.manifest, {"M": 999, "N": 3})
    alignment = max(argument.alignment for argument in kernel.manifest.arguments[:3])
    assert split.multiple % 3 == 0
    assert split.multiple * 3 * 4 % alignment == 0


@pytest.mark.parametrize(
    ("boundary", "compute", "reason"),
    [
        (", boundary: clamp", "y[m, n] = w[n] * x[m + 1, n]", "`x` is read in other rows, too"),
        ("", "y[m, n] = m * w[n] * x[m, n]", "the value depends on the number of the row, `m`"),
        ("", "y[m, n] = w[n] * x[m, n] / M", "the value depends on the number of rows"),
        ("", "y[m, n] = x[m, n] - w[n] * mean(x[i, n], i)", "all rows are reduced"),
        (", layout: column", "y[m, n] = w[n] * x[m, n]", "the rows of `x` aren't contiguous"),
        (", memory: mapped", "y[m, n] = w[n] * x[m, n]", "no rows are copied in"),
    ],
)
def test_a_refusal_says_what_a_row_depends_on(kernel_of, boundary, compute, reason):
    with pytest.raises(SpecError) as caught:
        split_of(kernel_of, HEAD % boundary + compute)
    (found,) = caught.value.diagnostics
    assert (found.code, found.message) == ("CG2402", f"the work can't be split along `M`: {reason}")
    assert found.span.line > 0


def test_an_output_without_rows_is_refused(kernel_of):
    text = (HEAD % "" + "y[n] = w[n] * sum(x[m, n], m)").replace("y: {shape: [M, N]", "y: {shape: [N]")
    with pytest.raises(SpecError, match="`y` depends on all rows"):
        split_of(kernel_of, text)


def test_a_fixed_size_is_refused_with_a_cure(kernel_of):
    text = (HEAD % "" + "y[m, n] = w[n] * x[m, n]").replace("{range: [1, 100000], default: 1000}", "1000")
    with pytest.raises(SpecError, match=r"no size is left to the launch(?s:.*)help: make the number of rows dynamic"):
        split_of(kernel_of, text)


def test_a_last_part_that_the_kernel_refuses_is_refused_here(kernel_of):
    text = (HEAD % "" + "y[m, n] = w[n] * x[m, n]").replace("[1, 100000]", "[60, 100000]")
    with pytest.raises(
        SpecError, match="the last of the parts would have 8 rows, and the kernel takes a whole number from 60"
    ):
        split_of(kernel_of, text)
