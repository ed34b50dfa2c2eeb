"""The memory instructions of every operator belong to its accesses, where sizes divide and where none does."""

from __future__ import annotations

import pytest

from cugen.compiled.kernels import compiled_kernels
from cugen.kernel import generate
from cugen.toolchain.cuda import compile_cubin, compile_ptx

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_every_memory_instruction_of_an_operator_is_explained(static_operator_case, target):
    kernel = generate(static_operator_case.spec())
    params = {kernel.context.symbols[p.name].name: p.value for p in kernel.spec.params}
    image = compile_cubin(kernel.source, kernel.name, target).image
    ptx = compile_ptx(kernel.source, kernel.name, target)
    for actual in compiled_kernels(kernel.plan, kernel.spec, kernel.access_lines(), image, ptx, target, params):
        assert not actual.unexplained, [(hex(i.address), i.opcode, i.line) for i in actual.unexplained]
