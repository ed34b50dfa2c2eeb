"""Fixtures that build small specs and load or diagnose them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from cugen.spec.diagnostics import Diagnostic, SpecError
from cugen.spec.expressions import Expr
from cugen.spec.load import load_text
from cugen.spec.model import Spec


@dataclass(frozen=True)
class Resolved:
    """The result of loading a spec: the spec, or its diagnostics."""

    spec: Spec | None
    diagnostics: tuple[Diagnostic, ...]

    @property
    def codes(self) -> list[str]:
        return [d.code for d in self.diagnostics]

    @property
    def value(self) -> Expr:
        """The right side of the last statement."""
        assert self.spec is not None, [d.message for d in self.diagnostics]
        return self.spec.statements[-1].value


Diagnose = Callable[..., tuple[Diagnostic, ...]]
SpecText = Callable[..., str]


@pytest.fixture
def diagnose() -> Diagnose:
    """All diagnostics of a text; none if it is valid."""

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
def load_one() -> Callable[[str], Spec]:
    """The only kernel of a text."""

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


Compute = Callable[..., Resolved]


@pytest.fixture
def compute() -> Compute:
    """Resolves statements over arrays given as `shape; dtype; more`: `compute(block, x="N, 4; int8; boundary: zero")`.

    Keywords `params`, `require`, `indices`, `scalars` and `accumulate` are YAML text. Returns the spec, if valid, and
    the diagnostics."""

    def resolve(block: str, **declared: str) -> Resolved:
        lines = ["cugen: 1", "kernel: tried"]
        for key in ("params", "require", "indices", "scalars", "accumulate"):
            if key in declared:
                lines.append(f"{key}: {declared.pop(key)}")
        lines.append("arrays:")
        for name, text in declared.items():
            shape, dtype, *more = text.split("; ") if "; " in text else (text, "float32")
            extra = f", {more[0]}" if more else ""
            lines.append(f"  {name}: {{shape: [{shape}], dtype: {dtype}{extra}}}")
        lines += ["compute: |", *(f"  {line}" for line in block.split("\n"))]
        try:
            (spec,) = load_text("\n".join(lines) + "\n")
        except SpecError as error:
            return Resolved(None, error.diagnostics)
        return Resolved(spec, ())

    return resolve
