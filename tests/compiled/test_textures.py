"""Machine code of texture fetches: they are no loads of global memory, and its counters are predicted without them."""

from __future__ import annotations

import pytest

from cugen.compiled.kernels import compiled_kernels
from cugen.compiled.predictions import predictions
from cugen.kernel import generate
from cugen.spec.load import load_text
from cugen.toolchain.cuda import compile_cubin, compile_ptx

TARGET = "sm_90"


@pytest.mark.slow
def test_fetches_are_no_loads_of_global_memory() -> None:
    (spec,) = load_text("""
cugen: 1
kernel: k
params: {N: 1024}
arrays:
  t: {shape: [N], dtype: float32, memory: texture, boundary: zero}
  x: {shape: [N], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: y[i] = t[i - 1] * x[i]
schedule: {family: direct}
""")
    kernel = generate(spec, analysis=False)
    image = compile_cubin(kernel.source, "k", TARGET).image
    ptx = compile_ptx(kernel.source, "k", TARGET)
    (compiled,) = compiled_kernels(kernel.plan, spec, kernel.access_lines(), image, ptx, TARGET, {"N": 1024})
    assert {access.access.array.name for access in compiled.accesses} == {"x", "y"}
    assert compiled.unexplained == ()
    assert any(i.name in ("TLD", "TEX") for i in compiled.program.instructions)
    assert predictions(compiled)["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"].value == 1024 * 4 // 32
