"""Ways to write little specs and to look at what is found in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from cugen.spec.diagnostics import Diagnostic, SpecError
from cugen.spec.load import load_text
from cugen.spec.model import Spec

Findings = Callable[..., tuple[Diagnostic, ...]]
SpecText = Callable[..., str]


@pytest.fixture
def findings() -> Findings:
    """All diagnostics of a text, none for a good one."""

    def find(
        text: str, *, folder: Path | None = None, params: Mapping[str, int | float | bool] | None = None
    ) -> tuple[Diagnostic, ...]:
        try:
            load_text(text, folder=folder, params=params)
        except SpecError as error:
            return error.diagnostics
        return ()

    return find


@pytest.fixture
def one() -> Callable[[str], Spec]:
    """The one kernel of a text."""

    def load(text: str) -> Spec:
        (spec,) = load_text(text)
        return spec

    return load


@pytest.fixture
def spec_text() -> SpecText:
    """A spec `y[i] = 2 * x[i]` over eight elements; keywords set top-level keys, x and y add to the arrays."""

    def text(*, x: str = "", y: str = "", **keys: str) -> str:
        content = {
            "cugen": "1",
            "kernel": "scale",
            "arrays": "\n  x: {shape: [8], dtype: float32" + x + "}\n  y: {shape: [8], dtype: float32" + y + "}",
            "compute": "y[i] = 2 * x[i]",
        } | keys
        return "".join(f"{key}: {value}\n" for key, value in content.items())

    return text
