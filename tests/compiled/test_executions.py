"""Predicted executions of each access equal those of the machine code, executed for all threads of a launch."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from cugen.compiled import sass
from cugen.compiled.kernels import CompiledKernel, compiled_kernels
from cugen.kernel import generate
from cugen.plan.kernel import Kernel
from cugen.plan.symbols import integer, symbol
from cugen.spec.load import load_text
from cugen.toolchain.cuda import compile_cubin, compile_ptx
from tests.compiled.sass_simulator import Launch, UnknownInstruction
from tests.fuzz.drawing import Drawing
from tests.fuzz.operators import convolution, transposed_convolution

TARGET = "sm_90"
DRAWN = 24  # convolutions
MAX_SIDE = 12  # of arrays: some thousand threads per launch
MAX_LANES = 1 << 15

# Two trips of a loop in each lane, and a load that the first 3 lanes make.
LOOP = """
    S2R R0, SR_TID.X
    MOV R1, RZ
    ISETP.GE.AND P0, PT, R0, 0x3, PT
    .L_x_0:
    @!P0 LDG.E R5, desc[UR4][R2.64]
    IADD3 R1, R1, 0x1, RZ
    ISETP.LT.U32.AND P1, PT, R1, 0x2, PT
    @P1 BRA `(.L_x_0)
    STG.E desc[UR4][R2.64], R5
    EXIT
"""
ON_DATA = """
    LDG.E R5, desc[UR4][R2.64]
    ISETP.LT.AND P1, PT, R5, 0x2, PT
    @P1 EXIT
    EXIT
"""


class SmallDrawing(Drawing):
    """Operators at sizes that are executed in about a second."""

    def size(self, limit: int = MAX_SIDE) -> int:
        return super().size(min(limit, MAX_SIDE))


def program(code: str) -> sass.Program:
    rows = []
    for number, line in enumerate(code.strip().splitlines()):
        rows.append(line.strip() if line.endswith(":") else f"        /*{16 * number:04x}*/  {line.strip()} ;")
    return sass.parse("//--------------------- .text.k   ---\n" + "\n".join(rows))["k"]


def launched(code: str, threads: int) -> list[int]:
    return list(Launch((1, 1, 1), (threads, 1, 1), {}).executions(program(code)).values())


def test_a_guarded_load_is_executed_by_warps_with_an_active_lane() -> None:
    assert launched(LOOP, 64) == [2, 2, 2, 2, 4, 4, 2, 2, 2]


def test_lanes_beyond_the_block_execute_nothing() -> None:
    assert launched(LOOP, 33)[0] == 2
    assert launched(LOOP, 32)[0] == 1


def test_a_branch_on_data_is_unknown() -> None:
    with pytest.raises(UnknownInstruction):
        launched(ON_DATA, 32)


def drawn(seed: int) -> str:
    """The spec of a convolution of any rank, stride, dilation and number of groups, or of its transpose."""
    drawing = SmallDrawing(Random(seed))
    drawing.one_of(convolution, transposed_convolution)(drawing)
    return drawing.text()


def measured(kernel: Kernel, compiled: CompiledKernel, params: dict[str, int], argument: int = 0) -> dict[int, int]:
    """Executions by the machine code of a kernel, by address. Empty for a launch that is too large to simulate.

    argument: value of all words of its arguments. Those of pointers don't matter."""
    values = {symbol(name): integer(value) for name, value in params.items()}
    x, y, z = (int(extent.xreplace(values)) for extent in kernel.grid)
    if x * y * z * kernel.threads > MAX_LANES:
        return {}
    bank = dict(zip(range(0, 24, 4), (*kernel.block, x, y, z), strict=True))  # in front of the arguments
    bank |= dict.fromkeys(range(24, 1024, 4), argument)
    return Launch((x, y, z), kernel.block, bank).executions(compiled.program)


@pytest.mark.slow
def test_executions_of_drawn_convolutions_are_predicted() -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(DRAWN):
        (spec,) = load_text(drawn(seed))
        made = generate(spec, analysis=False)
        if any(kernel.family not in ("direct", "stencil") for kernel in made.plan.kernels):
            continue
        params = {made.context.symbols[p.name].name: p.value or 0 for p in spec.params}
        image = compile_cubin(made.source, made.name, TARGET).image
        ptx = compile_ptx(made.source, made.name, TARGET)
        for kernel, compiled in zip(
            made.plan.kernels,
            compiled_kernels(made.plan, spec, made.access_lines(), image, ptx, TARGET, params),
            strict=True,
        ):
            counts = measured(kernel, compiled, params)
            for access in compiled.accesses if counts else ():
                executions = sum(counts[i.address] for i in access.instructions)
                assert access.executions in (None, executions), (seed, access.line, access.changes)
                outcomes["unknown" if access.executions is None else "equal"] += 1
    assert outcomes["equal"] > 2 * outcomes["unknown"]
