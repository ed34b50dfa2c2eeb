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


def test_a_temporary_has_the_extent_of_another_that_is_read_beside_it(compute: Compute) -> None:
    """As shares of elements by key and a mean of scores in the loss of a mixture of experts."""
    arrays = {"params": "{N: 8, E: 3}", "x": "N", "p": "N, E", "y": ""}
    share, mean = "f[j] = sum(x[n] == j, n)", "m[j] = mean(p[n, j], n)"
    assert compute(f"{share}\n{mean}\ny = sum(f[j] * m[j], j)", **arrays).codes == []
    assert compute(f"{share}\ng[j] = 2 * f[j]\n{mean}\ny = sum(g[j] * m[j], j)", **arrays).codes == []
    assert compute(f"{share}\nm[j] = sum(x[n] > j, n)\ny = sum(f[j] * m[j], j)", **arrays).codes == ["CG1301"]
