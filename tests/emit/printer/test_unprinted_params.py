"""Params that a printed expression no longer has are not declared: compilers warn of unused constants."""

from __future__ import annotations

import re

from cugen.kernel import generate
from cugen.spec.load import load_text

# A remainder of f by F is f: F is in the nodes, and not in the text.
TEXT = """
cugen: 1
kernel: k
params: {C: 1, F: 1, I: 18, J: 200}
arrays:
  x: {shape: [C, 9, 100], dtype: float32, boundary: zero}
  w: {shape: [C, F, 2, 2], dtype: float32}
  y: {shape: [F, I, J], dtype: float32}
indices: {r: 2, s: 2, c: C}
compute: y[f, i, j] = sum(x[f // F * C + c, (i - r) / 2, (j - s) / 2] * w[f // F * C + c, f % F, r, s], c, r, s)
"""


def test_each_declared_constant_is_used():
    (spec,) = load_text(TEXT)
    device_code = generate(spec).source.partition("#if defined(__CUDACC__)")[0]
    code = "\n".join(line.partition("//")[0] for line in device_code.splitlines())
    declared = re.findall(r"^constexpr int (\w+)", code, re.MULTILINE)
    assert declared
    assert [name for name in declared if len(re.findall(rf"\b{name}\b", code)) < 2] == []
