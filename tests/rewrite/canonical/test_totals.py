"""Reductions to a single element after the statements that don't need them."""

from __future__ import annotations

import pytest

from cugen.kernel import generate
from cugen.rewrite.canonical.totals import with_late_totals
from cugen.runtime.cpu.device import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

TEXT = """
cugen: 1
kernel: totals
params: {N: 8}
arrays:
  x: {shape: [N], dtype: float32}
  s: {shape: [], dtype: float32}
  t: {shape: [], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: |
  %s
  %s
  %s
"""


@pytest.mark.parametrize(
    ("statements", "order"),
    [
        (("s = sum(x[i], i)", "t = max(x[i], i)", "y[i] = 2 * x[i]"), "yst"),
        (("s = sum(x[i], i)", "y[i] = 2 * x[i]", "t = max(y[i], i)"), "yst"),
        (("s = sum(x[i], i)", "y[i] = s * x[i]", "t = max(x[i], i)"), "syt"),
        (("t = 1.0", "s = sum(x[i], i)", "y[i] = 2 * x[i]"), "tys"),
        (("y[i] = 2 * x[i]", "s = sum(x[i], i)", "t = s"), "yst"),
    ],
)
def test_totals_follow_what_does_not_depend_on_them(statements, order):
    (spec,) = load_text(TEXT % statements)
    assert "".join(s.target for s in with_late_totals(spec).statements) == order


def test_what_overwrites_the_terms_of_a_total_stays_after_it():
    text = TEXT % ("s = sum(x[i], i)", "x[i] = 2 * x[i]", "t = max(x[i], i)")
    (spec,) = load_text(text.replace("  y: {shape: [N], dtype: float32}\n", ""))
    assert with_late_totals(spec) is spec


LOSS = """
params: {B: 30, V: 200}
arrays:
  z: {shape: [B, V], dtype: float32}
  loss: {shape: [], dtype: float32}
  d: {shape: [B, V], dtype: float32}
compute: |
  l[b] = log(sum(exp(z[b, v]), v))
  loss = mean(l[b], b)
  d[b, v] = exp(z[b, v] - l[b]) / B
"""


def test_a_total_does_not_part_rows_from_their_elements() -> None:
    (spec,) = load_text(f"cugen: 1\nkernel: loss{LOSS}")
    kernel = generate(spec, analysis=False)
    assert [planned.family for planned in kernel.plan.kernels] == ["rowwise", "reduce"]
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed
