"""Extents of indices that several arrays give must agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Compute = Callable[..., Any]


def test_extents_agree_by_what_is_required(compute: Compute) -> None:
    arrays = {"params": "{N: dynamic, G: dynamic, H: dynamic}", "x": "G * H", "y": "N"}
    assert compute("y[n] = x[n]", **arrays).codes == ["CG1302"]
    assert compute("y[n] = x[n]", require="[N == G * H]", **arrays).codes == []
    assert compute("y[n] = x[n]", require="[N <= G * H]", **arrays).codes == ["CG1302"]
    assert compute("y[n] = x[n]", require="[N <= G * H]", indices="{n: N}", **arrays).codes == []


def test_an_index_that_only_a_broken_temporary_has_is_no_error_of_its_own(compute: Compute) -> None:
    """Its extent isn't known because another one is wrong."""
    lines = "t[i] = x[i] + y[i]\ny[i] = sum(t[k], k)"
    assert compute(lines, params="{N: 4, M: 5}", x="M", y="N").codes == ["CG1302"]
