"""Elements used as subscripts are drawn so that they stay inside what they index."""

import numpy as np
import pytest

from cugen.reference.evaluate import evaluate
from cugen.runtime.inputs import draw, known_params
from cugen.spec.load import load_text
from cugen.spec.prove.gathers import gather_ranges


def spec_of(subscript: str, dtype: str = "int32", extent: int = 6):
    (spec,) = load_text(f"""
cugen: 1
kernel: gather
params: {{N: 20}}
arrays:
  c: {{shape: [N], dtype: {dtype}}}
  x: {{shape: [{extent}], dtype: float32}}
  y: {{shape: [N], dtype: float32}}
compute: y[i] = x[{subscript}]
""")
    return spec


@pytest.mark.parametrize(
    ("subscript", "expected"),
    [("c[i]", (0, 5)), ("c[i] - 2", (2, 7)), ("c[i] // 2", (0, 11)), ("5 - c[i]", (0, 5)), ("7 - c[i]", (2, 7))],
)
def test_the_range_is_what_keeps_the_subscript_inside_whether_it_grows_or_falls(subscript, expected):
    assert gather_ranges(spec_of(subscript), {"N": 20})["c"] == expected


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64"])
@pytest.mark.parametrize("subscript", ["c[i]", "5 - c[i]"])
def test_elements_of_any_type_are_drawn_within_it(subscript, dtype):
    drawn = draw(spec_of(subscript, dtype, 6), {"N": 20}, seed=3).arrays["c"]
    assert drawn.min() >= 0
    assert drawn.max() <= 5


def test_a_range_wider_than_the_type_is_cut_to_it():
    assert draw(spec_of("c[i]", "int8", 1000), {"N": 20}, seed=3).arrays["c"].max() <= 127


THROUGH_RESULTS = """
cugen: 1
kernel: gather
params: {N: 30, K: 4}
arrays:
  c: {shape: [N, K], dtype: %s}
  d: {shape: [N], dtype: int32}
  x: {shape: [17], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: |
  t[i] = %s
  y[i] = x[%s] + d[i]
"""


@pytest.mark.parametrize("subscript", ["t[i]", "t[i] // 2 + 1", "16 - t[i]"])
@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int32", "c[i, 0] + d[i]"),
        ("int32", "max(c[i, k], k) + 1"),
        ("uint8", "cast(c[i, 1], int32) << 1"),
        ("int16", "sum(c[i, k], k)"),
        ("int32", "where(d[i] > 0, c[i, 0], c[i, 1] + 2)"),
        ("int32", "cast(argmax(c[i, k], k), int32) * 4 + (c[i, 0] & 3)"),
        ("uint16", "cast(c[i, 0] >> 2, int32) + sum(c[i, k] <= c[i, 0], k)"),
        ("float32", "cast(floor(c[i, 0]), int32)"),
        ("float16", "cast(c[i, 0] * 40, int32)"),
        ("bfloat16", "cast(abs(c[i, 0]) / 3, int32) + abs(d[i])"),
        ("float8_e4m3", "clamp(cast(round(c[i, 0]), int32), 1, 16)"),
    ],
)
def test_elements_of_which_subscripts_are_computed_are_drawn_so_that_these_are_inside(dtype, value, subscript):
    (spec,) = load_text(THROUGH_RESULTS % (dtype, value, subscript))
    for exact_up_to in (0, 3):
        inputs = draw(spec, known_params(spec, {}), seed=1, exact_up_to=exact_up_to)
        assert evaluate(spec, inputs.arrays, params={}, scalars={})  # an error if a subscript is outside


def test_subscripts_that_any_element_gives_leave_the_elements_as_they_are():
    drawn = draw(spec_of("c[i] % 6"), {"N": 20}, seed=3).arrays["c"]
    assert drawn.min() < 0
    assert drawn.max() > 6


def test_floats_that_become_subscripts_reach_most_of_what_they_index():
    (spec,) = load_text(THROUGH_RESULTS % ("float32", "cast(c[i, 0], int32)", "t[i]"))
    drawn = draw(spec, known_params(spec, {}), seed=3).arrays["c"]
    assert set(np.unique(drawn.astype(int))) == set(range(17))
