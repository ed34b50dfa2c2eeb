"""Elements used as subscripts are drawn so that they stay inside what they index."""

import pytest

from cugen.runtime.inputs import draw
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
