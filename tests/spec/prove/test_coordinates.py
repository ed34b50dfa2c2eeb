"""Coordinates of samples: intervals hold every value, and what they prove to be inside needs no boundary."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.spec.expressions import Boundary, Sample, walk
from cugen.spec.load import load_text
from cugen.spec.prove.coordinates import Intervals
from tests.drawn import examples

Compute = Callable[..., Any]
FILTERED = "float32; memory: {space: texture, dims: 2, filter: linear}"
FUNCTIONS = {
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "trunc": math.trunc,
    "minimum": min,
    "maximum": max,
    "clamp": lambda x, low, high: min(max(x, low), high),
}


@st.composite
def coordinates(draw: st.DrawFn, depth: int = 3) -> str:
    """A coordinate in `i`, `j` and `N`, which Python evaluates as the language does."""
    if depth == 0:
        return draw(st.sampled_from(["i", "j", "N", "3", "0.5", "7.25", "-2", "0.375"]))
    a, b = draw(coordinates(depth - 1)), draw(coordinates(depth - 1))
    number = draw(st.sampled_from(["2", "0.5", "3", "1.5"]))
    return draw(
        st.sampled_from(
            [
                f"({a} + {b})",
                f"({a} - {b})",
                f"({a} * {number})",
                f"({a} / {number})",
                f"(-{a})",
                f"minimum({a}, {b})",
                f"maximum({a}, {b})",
                f"floor({a} * 0.5)",
                f"ceil({a} * 0.5)",
                f"round({a} * 0.5)",
                f"(i // 2 + {a})",
                f"((i + j) % 3 + {a})",
                f"({a} if i < 3 else {b})",
                f"clamp({a}, 0, 5)",
            ]
        )
    )


@settings(max_examples=examples(100), deadline=None)
@given(coordinates())
def test_an_interval_holds_every_value(text: str) -> None:
    (spec,) = load_text(f"""
cugen: 1
kernel: k
params: {{N: 6, M: dynamic}}
arrays:
  u: {{shape: [8, 8], dtype: float32, memory: {{space: texture, dims: 2, filter: linear}}, boundary: clamp}}
  y: {{shape: [7, 9], dtype: float32}}
  z: {{shape: [M], dtype: float32}}
compute: |
  y[i, j] = u[{text}, 0]
  z[m] = 0
""")
    statement = spec.statements[0]
    (sample,) = (node for node in walk(statement.value) if isinstance(node, Sample))
    low, high = Intervals({p.name: p for p in spec.params}, statement.indices).of(sample.coordinates[0])
    values = [eval(text, {**FUNCTIONS, "N": 6, "i": i, "j": j}) for i in range(7) for j in range(9)]
    assert low <= min(values)
    assert max(values) <= high
    assert math.isfinite(high - low)


@pytest.mark.parametrize(
    ("text", "is_inside"),
    [
        ("u[i * 0.5, j]", True),
        ("u[i / 2 + 0.5, j]", True),
        ("u[i + 0.25, j]", False),
        ("u[i - 0.25, j]", False),
        ("u[clamp(v[i], 0, 7), j]", True),
        ("u[clamp(v[i], 0, 7.5), j]", False),
        ("u[v[i], j]", False),
        ("u[7 - i * 0.5, 8 - j]", True),
        ("u[maximum(i - 1.5, 0), j]", True),
        ("u[i % 3 + 0.5, j]", True),
        ("sum(u[i * 0.25 + r * 0.5, j], r)", True),
        ("sum(u[i * 0.25 + r, j], r)", False),
    ],
)
def test_only_what_is_proved_to_be_inside_needs_no_boundary(compute: Compute, text: str, is_inside: bool) -> None:
    more = {"indices": "{r: 10}"} if "sum" in text else {}
    text = f"y[i, j] = {text}" if "v" in text else f"y[i, j] = {text} + v[i]"
    result = compute(text, u=f"8, 9; {FILTERED}", v="8", y="8, 9", **more)
    assert result.codes == ([] if is_inside else ["CG1304"])


@pytest.mark.parametrize("params", ["{H: dynamic}", "{H: {range: [4, 100]}}"])
def test_a_size_that_is_known_at_launch_is_as_small_as_it_may_be(compute: Compute, params: str) -> None:
    for last in (0, 3, 4):
        text = f"y[i] = u[clamp(v[i], 0, {last}), 0]"
        result = compute(text, params=params, u=f"H, 8; {FILTERED}", v="8", y="8")
        assert result.codes == ([] if "range" in params and last < 4 else ["CG1304"])


def test_a_sample_keeps_its_boundary(compute: Compute) -> None:
    result = compute("y[i] = u[i, 0.5]", u=f"8, 8; {FILTERED}, boundary: wrap", y="8")
    assert isinstance(result.value, Sample)
    assert result.value.boundary == Boundary("wrap")
