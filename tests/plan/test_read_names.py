"""Names of loaded elements: short, and of elements that differ by what they differ in."""

from __future__ import annotations

import pytest

from cugen.kernel import generate
from cugen.spec.load import load_text

SPEC = """
cugen: 1
kernel: k
params: {N: 40}
arrays:
  x: {shape: [4, N, N, N], dtype: float32}
  y: {shape: [N, N, N], dtype: float32}
compute: y[row_number, column_number, plane_number] = VALUE
"""
ELEMENT = "row_number, column_number, plane_number"


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (f"x[0, {ELEMENT}] * x[2, {ELEMENT}] + x[3, {ELEMENT}]", ["x_0", "x_2", "x_3"]),
        (f"x[0, {ELEMENT}]", ["x_value"]),
        ("x[0, row_number, 1, 2] - x[0, row_number, 2, 2]", ["x_0_row_number_1_2", "x_0_row_number_2_2"]),
    ],
    ids=["by what differs", "nothing differs", "short enough"],
)
def test_a_long_name_has_only_the_subscripts_in_which_elements_differ(value, names):
    (spec,) = load_text(SPEC.replace("VALUE", value) + "schedule: {family: direct}\n")
    lines = generate(spec, analysis=False).source.splitlines()
    declared = [line.split()[2] for line in lines if line.strip().startswith("const float x")]
    assert declared == names
