"""Which schedules may take sums in another order, as the families say it."""

from __future__ import annotations

import pytest

from cugen.spec.load import load_text
from cugen.spec.model import Schedule
from cugen.tune.order import may_reorder


@pytest.mark.parametrize(
    ("dtype", "compute", "family", "tunable", "expected"),
    [
        ("float32", "sum(x[i, j], j)", "reduce", "threads", True),
        ("float32", "sum(x[i, j], j)", "reduce", "unroll", True),
        ("int32", "sum(x[i, j], j)", "reduce", "threads", False),
        ("float32", "max(x[i, j], j)", "reduce", "threads", False),
        ("float32", "sum(x[i, j], j)", "rowwise", "threads", True),
        ("float32", "sum(x[i, j], j)", "rowwise", "rows", False),
        ("float32", "2 * x[i, 0]", "map", "vector", False),
    ],
)
def test_sums_of_floats_are_marked_where_a_tunable_reorders_them(
    dtype: str, compute: str, family: str, tunable: str, expected: bool
) -> None:
    (spec,) = load_text(
        f"cugen: 1\nkernel: k\nparams: {{M: 8, N: 16}}\narrays:\n  x: {{shape: [M, N], dtype: {dtype}}}\n"
        f"  y: {{shape: [M], dtype: {dtype}}}\ncompute: y[i] = {compute}\n"
    )
    assert may_reorder(spec, (("y", Schedule(family, tunables=((tunable, 4),))),)) is expected
