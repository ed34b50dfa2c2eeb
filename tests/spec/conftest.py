"""Ways to write little specs and to look at what is found in them."""

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
    """What became of a spec: its kernel, or the findings."""

    spec: Spec | None
    findings: tuple[Diagnostic, ...]

    @property
    def codes(self) -> list[str]:
        return [finding.code for finding in self.findings]

    @property
    def value(self) -> Expr:
        """The right side of the last statement."""
        assert self.spec is not None, [finding.message for finding in self.findings]
        return self.spec.statements[-1].value


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


Compute = Callable[..., Resolved]


@pytest.fixture
def compute() -> Compute:
    """Resolves statements over arrays given as `shape; dtype; more`: `compute(block, x="N, 4; int8; boundary: zero")`.

    Keywords `params`, `indices`, `scalars` and `accumulate` are YAML text. Gives the spec, if any, and the findings."""

    def resolve(block: str, **declared: str) -> Resolved:
        lines = ["cugen: 1", "kernel: tried"]
        for key in ("params", "indices", "scalars", "accumulate"):
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
