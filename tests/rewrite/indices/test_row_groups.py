"""Rows in groups, as views of arrays with a dimension of groups and one of their rows."""

from __future__ import annotations

import pytest

from cugen.kernel import generate
from cugen.plan.context import make_context
from cugen.rewrite.indices.row_groups import with_fused_row_groups
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

ROWS = """cugen: 1
kernel: k
params: {M: 4003, N: 155}
indices: {g: 1000}
arrays:
  x: {shape: [M, N], dtype: float32}
  y: {shape: [4, N], dtype: float32}
compute: "y[r, j] = sum(x[g * 4 + r, j], g)"
"""


def fused(text: str):
    (spec,) = load_text(text)
    return with_fused_row_groups(spec.statements, make_context(spec))


def test_the_rows_of_a_group_and_their_columns_are_one_index():
    statements, array = fused(ROWS).statements, fused(ROWS).arrays["x"]
    assert [index.name for index in statements[0].indices] == ["rj"]
    assert [str(stride) for stride in array.strides] == ["4*N", "1"]


def test_a_view_ends_with_the_last_whole_group():
    (spec,) = load_text(ROWS)
    groups, columns = map(make_context(spec).static, fused(ROWS).arrays["x"].shape)
    assert (groups, columns) == (1000, 620)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(ROWS.replace("float32}", "float32, boundary: zero}", 1).replace("4003", "3900"), id="a boundary"),
        pytest.param(ROWS.replace("j], g)", "j], g, where=g * 4 + r < 3000)"), id="a condition"),
        pytest.param(ROWS.replace("g * 4 + r", "g * 3 + r"), id="groups that overlap"),
        pytest.param(ROWS.replace("g)", "g) + x[r + 0, j]"), id="another row"),
    ],
)
def test_other_rows_are_left(text):
    assert [index.name for index in fused(text).statements[0].indices] == ["r", "j"]


WRITTEN = """cugen: 1
kernel: k
params: {N: 96, G: 32}
indices: {r: 32, q: 32}
arrays:
  x: {shape: [N], dtype: float32}
  s: {shape: [N // G], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: |
  z[g, r] = x[g * 32 + r] * s[g]
  y[g * 32 + r] = z[g, r] / max(abs(z[g, q]), q)
"""


def test_outputs_have_the_dimensions_of_the_views_that_they_are_written_through():
    (spec,) = load_text(WRITTEN)
    statement = spec.statements[-1]
    made = with_fused_row_groups((statement,), make_context(spec))
    assert [len(s.subscripts) for s in made.statements] == [len(made.arrays["y"].shape)]


def test_groups_that_are_scaled_by_their_maxima_are_right():
    (spec,) = load_text(WRITTEN)
    kernel = generate(spec, analysis=False)
    assert [launch.family for launch in kernel.plan.kernels] == ["rowwise"]
    assert verify(spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed
