"""Pages of small specs and of the gallery."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from cugen.kernel import Kernel, generate
from cugen.kernel_report import analyze
from cugen.report.page import Page, page
from cugen.spec.load import load_all, load_text

ROOT = Path(__file__).parents[2]

TRANSPOSE = """
cugen: 1
kernel: turn
params: {M: 70, N: 96}
arrays:
  x: {shape: [M, N], dtype: float32, memory: {space: shared, pad: 0}}
  y: {shape: [N, M], dtype: float32}
compute: y[n, m] = x[m, n]
schedule: {family: transpose}
"""

PageOf = Callable[..., Page]


@pytest.fixture(scope="session")
def page_of() -> PageOf:
    """The page of the only kernel of a spec's text."""

    def made(text: str, **params: int) -> Page:
        (spec,) = load_text(text)
        kernel = generate(spec)
        return page(kernel, analyze(kernel, params=params), params)

    return made


@cache
def _gallery(file: str) -> tuple[Kernel, ...]:
    return tuple(generate(spec) for spec in load_all(ROOT / "specs" / file))


@pytest.fixture(scope="session")
def gallery_pages() -> Callable[[str], Iterator[Page]]:
    """The pages of a file of the gallery."""
    return lambda file: (page(kernel, analyze(kernel)) for kernel in _gallery(file))
