"""GEMMs on tensor cores: each LDSM, LDGSTS and MMA of the machine code belongs to an access or an MMA of the plan, and
is executed as often as predicted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from cugen.compiled.kernels import CompiledKernel
from cugen.compiled.sass import Instruction
from cugen.kernel import Kernel, generate
from cugen.plan.nodes import Mma
from cugen.plan.traversal.walking import walk_nodes
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_text
from tests.compiled.sass_simulator import UnknownInstruction
from tests.compiled.test_executions import measured
from tests.compiled.test_kernels import PAIRS, compiled, sizes_of
from tests.families.gemm.test_tensor_core_draws import draw
from tests.gallery.specs import gallery

PER_BATCH = 8
GALLERY = [pair for pair in PAIRS if pair[0].startswith(("gemm_tensor", "matmul_f16", "matmul_int8"))]


def outcomes(kernel: Kernel, target: str) -> Iterator[str]:
    """Whether executions are as predicted, of each access and MMA of the kernels on tensor cores."""
    dynamic = [sizes_of(kernel.spec)[p.name] for p in kernel.spec.params if p.is_dynamic]
    params = {kernel.context.symbols[name].name: value for name, value in sizes_of(kernel.spec).items()}
    for planned, machine_code in zip(kernel.plan.kernels, compiled(kernel, target), strict=True):
        if not any(isinstance(node, Mma) for node in walk_nodes(planned.body)):
            continue
        check_belonging(machine_code)
        try:
            counts = measured(planned, machine_code, params, max(dynamic, default=0))
        except UnknownInstruction:
            continue
        for kind, line, instructions, executions in predicted(machine_code) if counts else ():
            executed = sum(counts[i.address] for i in instructions)
            assert executions in (None, executed), (kind, line)
            yield f"{kind} {'unknown' if executions is None else 'equal'}"


def check_belonging(kernel: CompiledKernel) -> None:
    assert kernel.unexplained == ()
    belonging = Counter(i.address for a in kernel.accesses if a.space != "global" for i in a.instructions)
    belonging.update(i.address for m in kernel.mmas for i in m.instructions)
    emitted = [i for i in kernel.program.instructions if i.name in ("LDSM", "LDGSTS") or i.name.endswith("MMA")]
    assert all(belonging[i.address] == 1 for i in emitted)


def predicted(kernel: CompiledKernel) -> Iterator[tuple[str, int, tuple[Instruction, ...], int | None]]:
    for access in kernel.accesses:
        yield access.access.kind, access.line, access.instructions, access.executions
    for mma in kernel.mmas:
        yield "mma", mma.line, mma.instructions, mma.executions


@pytest.mark.sampled(16)
@pytest.mark.parametrize(("name", "target"), GALLERY)
def test_executions_of_the_gallery_on_tensor_cores_are_predicted(name, target):
    actual = Counter(outcomes(generate(gallery()[name], analysis=False), target))
    assert actual["mma equal"] > 0
    assert actual["mma unknown"] == actual["matrix_load unknown"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(4))
def test_executions_of_drawn_gemms_on_tensor_cores_are_predicted(batch):
    actual: Counter[str] = Counter()
    for seed in range(PER_BATCH * batch, PER_BATCH * (batch + 1)):
        try:
            (spec,) = load_text(f"cugen: 1\nkernel: product\n{draw(seed).text}")
            kernel = generate(spec, analysis=False)
        except SpecError:
            continue
        actual.update(outcomes(kernel, spec.target))
    assert actual["mma equal"] > actual["mma unknown"]
    assert actual["matrix_load equal"] > actual["matrix_load unknown"]
