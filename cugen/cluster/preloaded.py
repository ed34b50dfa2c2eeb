"""Imported once for all workers of `--scheduler local`, which are forks of the process that has it: what prepares
candidates, with its templates parsed. Nothing here may open a device, start a thread, or read the environment."""

from __future__ import annotations

import cugen.cluster.engine
import cugen.tune.tuner  # noqa: F401
from cugen.kernel import generate
from cugen.spec.load import load_text

_GEMM = """\
cugen: 1
kernel: gemm
target: sm_90
params: {{M: 512, N: 512, K: 512}}
arrays:
  A: {{shape: [M, K], dtype: {dtype}}}
  B: {{shape: [K, N], dtype: {dtype}}}
  C: {{shape: [M, N], dtype: {dtype}}}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
"""

for _dtype in ("float32", "bfloat16"):
    for _spec in load_text(_GEMM.format(dtype=_dtype)):
        generate(_spec, remarks="none")
