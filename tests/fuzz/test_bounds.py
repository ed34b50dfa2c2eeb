"""Accesses outside of arrays are found in the plan."""

from __future__ import annotations

import pytest

from cugen.kernel import Kernel, generate
from cugen.plan.memory import Array
from cugen.spec.load import load_text

from . import bounds
from .bounds import bounds_faults

ROWS = (
    "cugen: 1\nkernel: rows\nparams: {{N: {n}}}\narrays:\n"
    "  x: {{shape: [N, 64], dtype: float32}}\n  y: {{shape: [N], dtype: float32}}\n"
)


def rows(compute: str, n: int | str = 100) -> Kernel:
    (spec,) = load_text(ROWS.format(n=n) + f"compute: {compute}\n")
    return generate(spec, remarks="none")


@pytest.mark.parametrize(
    "compute", ["y[i] = sum(x[i, k], k)", "y[i] = x[i, 0] + 1", "y[i] = max(where(k >= 3, x[i, k], -inf), k)"]
)
def test_a_kernel_stays_in_its_arrays(compute: str) -> None:
    assert list(bounds_faults(rows(compute), {})) == []


def test_the_last_element_is_read_at_sizes_that_the_launch_has() -> None:
    kernel = rows("y[i] = sum(x[i, k], k)", "dynamic")
    assert list(bounds_faults(kernel, {"N": 33})) == []


@pytest.mark.parametrize("name", ["x", "y"])
def test_an_access_outside_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last element of a shorter array, which only the last block accesses."""
    elements = bounds._elements

    def shorter(array: Array, params: dict[str, int]) -> int:
        return elements(array, params) - (array.name == name)

    monkeypatch.setattr(bounds, "_elements", shorter)
    (fault,) = bounds_faults(rows("y[i] = sum(x[i, k], k)"), {})
    assert f"{name} of" in fault
