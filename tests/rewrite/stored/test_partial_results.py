"""Partial results of several indices: how many choices of these are compared."""

from __future__ import annotations

import pytest

from cugen.rewrite.stored import partial_results
from cugen.schedule.planner import make_plan
from cugen.spec.load import load_text


def test_sums_over_many_indices_have_few_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    """All choices among 16 indices would take minutes."""
    compared: list[object] = []
    fit = partial_results._fit
    monkeypatch.setattr(partial_results, "_fit", lambda *args: compared.append(args[0]) or fit(*args))
    names = "abcdefghijklmnop"
    first, second = names[:8], names[8:]
    shape = ", ".join("3" * 8)
    reads = [f"x[{', '.join(n)}]" for n in (first, first[::-1])] + [
        f"y[{', '.join(n)}]" for n in (second, second[::-1])
    ]
    (spec,) = load_text(
        f"cugen: 1\nkernel: many\narrays:\n  x: {{shape: [{shape}], dtype: float32}}\n"
        f"  y: {{shape: [{shape}], dtype: float32}}\n  z: {{shape: [], dtype: float32}}\n"
        f"compute: z = sum({' * '.join(reads)} + x[{', '.join(first[:4] + second[:4])}], {', '.join(names)})\n"
    )
    make_plan(spec)
    assert 0 < len(set(compared)) <= 192
