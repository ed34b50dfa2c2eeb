"""Pages of small specs and of the gallery."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from cugen.kernel import generate
from cugen.kernel_report import analyze
from cugen.report.page import Page, page
from cugen.spec.load import load_all, load_text

ROOT = Path(__file__).parents[2]

PageOf = Callable[..., Page]
PagesOf = Callable[[str], tuple[Page, ...]]


@pytest.fixture(scope="session")
def page_of() -> PageOf:
    """The page of the only kernel of a spec's text."""

    def made(text: str, **params: int) -> Page:
        (spec,) = load_text(text)
        kernel = generate(spec)
        return page(kernel, analyze(kernel, params=params), params)

    return made


@cache
def _gallery(file: str) -> tuple[Page, ...]:
    kernels = (generate(spec) for spec in load_all(ROOT / "specs" / file))
    return tuple(page(kernel, analyze(kernel)) for kernel in kernels)


@pytest.fixture(scope="session")
def gallery_pages() -> PagesOf:
    """The pages of a file of the gallery."""
    return _gallery
