"""Columns of rows that begin anywhere: rows in groups, where vectors go on from one row to the next."""

from __future__ import annotations

import re

import pytest

from cugen.kernel import Kernel, generate
from cugen.plan.alignment import unaligned
from cugen.plan.traversal.walking import accesses
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text


def columns(rows: int, count: int, dtype: str, value: str, shape: str = "M, N", out: str = "N") -> str:
    subscripts = out.lower().replace("n", "j")
    return f"""cugen: 1
kernel: k
target: sm_90
params: {{M: {rows}, N: {count}}}
arrays:
  x: {{shape: [{shape}], dtype: {dtype}}}
  y: {{shape: [{out}], dtype: float32}}
compute: y[{subscripts}] = {value}
"""


def planned(text: str):
    return generate(load_text(text)[0], analysis=False)


def widths(text: str, array: str = "x") -> list[int]:
    """Of the widest load of an array in each launch."""
    bodies = (kernel.body for kernel in planned(text).plan.kernels)
    return [max((a.width for a in accesses(body) if a.array.name == array), default=0) for body in bodies]


def is_grouped(kernel: Kernel) -> bool:
    return any(array.name.endswith("_parts") and len(array.shape) == 3 for array in kernel.plan.workspace)


LONG = columns(400_000, 155, "bfloat16", "sum(x[i, j], i)")


@pytest.mark.parametrize(
    ("count", "dtype", "width"), [(155, "bfloat16", 8), (154, "float16", 8), (1355, "float32", 4), (301, "int8", 4)]
)
def test_vectors_go_on_from_one_row_to_the_next(count, dtype, width):
    kernel = planned(columns(400_000, count, dtype, "sum(cast(x[i, j], float32), i)"))
    (loaded, *_) = [a for a in accesses(kernel.plan.kernels[0].body) if a.array.name == "x"]
    assert (loaded.width, len(kernel.plan.kernels)) == (width, 2)


def test_a_schedule_that_names_the_family_changes_nothing():
    assert widths(LONG + "schedule: {family: reduce}\n") == [8, 0]


def test_every_access_is_proved_inside_and_aligned():
    kernel = generate(load_text(LONG.replace("400000", "400003"))[0])
    assert not [access for k in kernel.plan.kernels for access in unaligned(k.body, kernel.plan.context)]
    assert re.search(r"// bounds +12 of 12 accesses proved", kernel.source)


def test_the_second_step_reads_the_rows_after_the_last_group():
    assert widths(LONG) == [8, 0]
    assert widths(LONG.replace("400000", "400003")) == [8, 1]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(LONG.replace("N: 155", "N: 160"), id="whole vectors"),
        pytest.param(LONG.replace("400000", "400"), id="few rows"),
        pytest.param(LONG.replace("400000", "dynamic"), id="any number of rows"),
        pytest.param(LONG.replace("sum(x[i, j], i)", "argmax(x[i, j], i)").replace("float32", "int32"), id="positions"),
        pytest.param(LONG + "schedule: {family: reduce, split_k: 64}\n", id="parts that the spec chooses"),
    ],
)
def test_others_keep_their_rows(text):
    assert not is_grouped(planned(text))


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("rows", "count", "dtype", "value"),
    [
        (803, 1355, "bfloat16", "sum(x[i, j], i)"),
        (3006, 155, "float16", "max(x[i, j], i)"),
        (3001, 155, "bfloat16", "mean(x[i, j], i)"),
        (3000, 301, "int8", "min(x[i, j], i)"),
        (2001, 405, "bfloat16", "sum(x[i, j], i) + max(x[i, j], i)"),
        (2001, 405, "float32", "prod(1 + x[i, j] / 4096, i)"),
        (901, 1405, "bfloat16", "any(x[i, j] > 3, i)"),
    ],
)
def test_results_are_right(rows, count, dtype, value):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cugen.families.reduce.split.MIN_ROW_GROUPS_GAIN", 0)
        (spec,) = load_text(columns(rows, count, dtype, value))
        kernel = generate(spec)
    assert is_grouped(kernel)
    run = verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True))
    assert run.verification.passed, "\n".join(run.verification.messages)


def test_rows_of_each_of_several_matrices_are_in_groups_where_these_are_aligned():
    text = columns(40_000, 501, "bfloat16", "sum(x[b, i, j], i)", "3, M, N", "3, N").replace("y[3, j]", "y[b, j]")
    assert widths(text)[0] == 8
    assert widths(text.replace("40000", "40001"))[0] == 1
