"""Elements used as subscripts are drawn inside what they index, keys and ends of ranges about the index."""

import numpy as np
import pytest

from cugen.reference.evaluate import evaluate
from cugen.runtime.inputs import draw, known_params
from cugen.spec.load import load_text
from cugen.spec.prove.drawn import ascending_axes, drawn_ranges


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
    assert drawn_ranges(spec_of(subscript), {"N": 20})["c"] == expected


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


RANGES = """
cugen: 1
kernel: ranges
params: {N: 500, G: 40, B: 3}
arrays:
  x: {shape: [N], dtype: float32}
  start: {shape: [B, G + 1], dtype: %s}
  y: {shape: [B, G], dtype: float32}
indices: {g: G}
compute: |
  y[b, g] = sum(x[k], k, where=start[b, g] <= k and k < start[b, g + 1])
"""


@pytest.mark.parametrize("dtype", ["int16", "int64", "uint32"])
def test_ends_of_ranges_ascend_and_reach_one_past_what_they_bound(dtype):
    (spec,) = load_text(RANGES % dtype)
    start = draw(spec, known_params(spec, {}), seed=1).arrays["start"].astype(np.int64)
    assert drawn_ranges(spec, known_params(spec, {}))["start"] == (-1, 501)
    assert ascending_axes(spec) == {"start": 1}
    assert np.all(np.diff(start, axis=1) >= 0)
    assert np.all(start[:, -1] - start[:, 0] > 400)


@pytest.mark.parametrize(
    ("dtype", "condition", "ends"),
    [
        ("int32", "key[n] == g", (-1, 12)),
        ("uint8", "g == key[n] // 4", (-1, 48)),
        ("int32", "g != key[n] - 5", (4, 17)),
        ("int32", "g < key[n]", (-1, 13)),
        ("int64", "3 * g + 1 == key[n]", (0, 35)),
    ],
)
def test_keys_are_about_the_index_that_they_are_compared_with(dtype, condition, ends):
    (spec,) = load_text(f"""
cugen: 1
kernel: keys
params: {{N: 300, G: 12}}
arrays:
  key: {{shape: [N], dtype: {dtype}}}
  count: {{shape: [G], dtype: int32}}
compute: count[g] = sum({condition}, n)
""")
    assert drawn_ranges(spec, {"N": 300, "G": 12}) == {"key": ends}
    drawn = draw(spec, {"N": 300, "G": 12}, seed=1).arrays["key"]
    assert (drawn.min(), drawn.max()) == (max(ends[0], np.iinfo(dtype).min), ends[1])
    assert ascending_axes(spec) == {}


def test_a_key_that_is_a_subscript_too_is_in_bounds():
    (spec,) = load_text("""
cugen: 1
kernel: both
params: {N: 300, G: 12}
arrays:
  key: {shape: [N], dtype: int32}
  scale: {shape: [7], dtype: float32}
  total: {shape: [G], dtype: float32}
compute: total[g] = sum(scale[key[n]], n, where=key[n] == g)
""")
    assert drawn_ranges(spec, {"N": 300, "G": 12}) == {"key": (0, 6)}


def test_a_range_reaches_the_elements_that_keys_are_computed_from():
    (spec,) = load_text("""
cugen: 1
kernel: counts
params: {N: 300, G: 12}
arrays:
  x: {shape: [N], dtype: float32}
  key: {shape: [N], dtype: int32}
  count: {shape: [G], dtype: int32}
compute: |
  key[n] = cast(x[n], int32)
  count[g] = sum(key[n] == g, n)
""")
    low, high = drawn_ranges(spec, {"N": 300, "G": 12})["x"]
    assert -2 < low <= -1
    assert 12 < high < 13
