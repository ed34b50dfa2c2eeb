"""Specs of elementwise statements, and the widths of a kernel's accesses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cugen.plan.kernel import Kernel
from cugen.plan.traversal.walking import accesses


@pytest.fixture(scope="session")
def saxpy() -> Callable[..., str]:
    """A vector update of `size` elements."""

    def text(size: int | str, schedule: str = "") -> str:
        return f"""
params: {{N: {size}}}
scalars: {{a: {{dtype: float32}}}}
arrays:
  X: {{shape: [N], dtype: float32}}
  Y: {{shape: [N], dtype: float32}}
compute: Y[i] = a * X[i] + Y[i]
schedule: {{{schedule}}}
"""

    return text


@pytest.fixture(scope="session")
def matrix() -> Callable[..., str]:
    """A matrix plus a row `b`; `x`, `b` and `y` are more keys of the arrays."""

    def text(rows: int | str, columns: int | str, *, x: str = "", b: str = "", y: str = "", schedule: str = "") -> str:
        keys = {name: f", {more}" if more else "" for name, more in (("X", x), ("b", b), ("Y", y))}
        return f"""
params: {{M: {rows}, N: {columns}}}
arrays:
  X: {{shape: [M, N], dtype: float32{keys["X"]}}}
  b: {{shape: [N], dtype: float32{keys["b"]}}}
  Y: {{shape: [M, N], dtype: float32{keys["Y"]}}}
compute: Y[m, n] = X[m, n] + b[n]
schedule: {{{schedule}}}
"""

    return text


@pytest.fixture(scope="session")
def widths() -> Callable[[Kernel], dict[str, int]]:
    """The widest access to each array, in elements."""

    def of_arrays(kernel: Kernel) -> dict[str, int]:
        widest: dict[str, int] = {}
        for access in accesses(kernel.body):
            widest[access.array.name] = max(widest.get(access.array.name, 0), access.width)
        return widest

    return of_arrays
