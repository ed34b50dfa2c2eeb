"""Features of CUDA C that a target lacks: a kernel that was made to ask for them is the one that is printed."""

from __future__ import annotations

import re

import pytest

from cugen.kernel import generate
from cugen.spec.load import load_text

SPEC = """
cugen: 1
kernel: product
params: {N: 100}
arrays:
  A: {shape: [N, N], dtype: float32, memory: shared}
  B: {shape: [N, N], dtype: float32, memory: shared}
  C: {shape: [N, N], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {block: {m: 16, n: 16}, step: {k: 16}}
"""


@pytest.mark.parametrize("target", ["sm_10", "sm_20", "sm_30"])
def test_a_tiled_product_has_the_same_names_on_old_and_new_targets(target: str) -> None:
    def names(on: str) -> set[str]:
        (spec,) = load_text(SPEC, target=on)
        code = re.sub(r"//.*", "", generate(spec, analysis=False).source)
        return set(re.findall(r"\b[A-Za-z]\w*", code))

    assert names(target) == names("sm_90")
