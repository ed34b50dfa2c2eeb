"""Sums of sums are one sum."""

from __future__ import annotations

import pytest

from cugen.rewrite.sums.flattened import flattened
from cugen.spec.expressions import Reduce, free_indices, walk
from cugen.spec.load import load_text

SPEC = """
cugen: 1
kernel: f
params: {{N: 5, M: 7}}
arrays:
  a: {{shape: [N], dtype: float32}}
  b: {{shape: [N, M], dtype: float32}}
  c: {{shape: [M], dtype: int32}}
  y: {{shape: [M], dtype: float32}}
  z: {{shape: [], dtype: float32}}
compute:
  - y[k] = {value}
  - z = sum(a[i], i) + sum(b[i, j] * c[j], i, j)
"""


def sum_of(value: str) -> Reduce:
    (spec,) = load_text(SPEC.format(value=value))
    return next(node for node in walk(spec.statements[0].value) if isinstance(node, Reduce))


@pytest.mark.parametrize(
    ("value", "indices"),
    [
        ("sum(a[i] * sum(b[i, j], j), i)", ["i", "j"]),
        ("sum(a[i] * sum(b[i, j] * sum(a[r], r), j), i)", ["i", "j", "r"]),
        ("sum(a[i] * sum(b[i, j], j), i) + b[0, k]", ["i", "j"]),
        ("sum(sum(a[r], r) / a[i], i)", ["i", "r"]),
    ],
)
def test_a_sum_that_is_a_factor_gives_its_indices(value, indices):
    assert [index.name for index in flattened(sum_of(value), set()).indices] == indices


def test_indices_of_names_that_are_taken_have_others():
    flat = flattened(sum_of("sum(a[i] * sum(b[i, j], j), i)"), {"j"})
    assert [index.name for index in flat.indices] == ["i", "j_"]
    assert {"i", "j_"} <= free_indices(flat.body)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("sum(a[i] + sum(b[i, j], j), i)", id="an addend"),
        pytest.param("sum(a[i] / sum(b[i, j], j), i)", id="a divisor"),
        pytest.param("sum(a[i] * max(b[i, j], j), i)", id="a maximum"),
        pytest.param("sum(a[i] * sum(b[i, j], j, where=j < 3), i)", id="a condition"),
        pytest.param("sum(a[i] * sum(c[j], j), i)", id="another type"),
        pytest.param("sum(sum(a[r], r) * sum(b[i, j], j), i)", id="two of them"),
    ],
)
def test_other_sums_stay(value):
    reduction = sum_of(value)
    assert flattened(reduction, set()) == reduction
