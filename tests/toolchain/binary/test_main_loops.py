"""Loops around wgmma are read from machine code as nvdisasm prints it."""

import re

import pytest

from cugen.kernel import generate
from cugen.spec.load import load_text
from cugen.toolchain import cuda
from cugen.toolchain.binary.disassembler import disassemble
from cugen.toolchain.binary.main_loops import instructions, loops_of, spills_in_main_loop

PRODUCT = """\
cugen: 1
kernel: product
target: sm_90a
params: {M: 2500, N: 4096, K: 1536}
arrays:
  x: {shape: [M, K], dtype: bfloat16}
  w: {shape: [N, K], dtype: bfloat16}
  b: {shape: [N], dtype: bfloat16}
  y: {shape: [M, N], dtype: bfloat16}
schedule: {block: {m: 200, n: 128}, swap_ab: true, stages: 2}
compute: y[m, n] = gelu(sum(x[m, k] * w[n, k], k) + b[n])
"""
INSTRUCTION_BYTES = 16


@pytest.fixture(scope="module")
def cubin(tmp_path_factory: pytest.TempPathFactory) -> cuda.Cubin:
    (spec,) = load_text(PRODUCT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUGEN_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        return cuda.compile_cubin(generate(spec).source, "product", "sm_90a")


def test_registers_that_are_spilled_between_the_main_loop_and_the_epilogue_are_no_fault(cubin: cuda.Cubin) -> None:
    assert cubin.kernels["product"].spill_stores > 0
    assert not spills_in_main_loop(cubin.image, "product")


def test_loops_are_those_of_the_disassembly(cubin: cuda.Cubin) -> None:
    sass = disassemble(cubin.image, lines=None)
    branches, labels, waiting = [], {}, []
    for line in sass.splitlines():
        if label := re.match(r"(\.L_x_\d+):", line):
            waiting.append(label[1])
        elif address := re.match(r"\s*/\*([0-9a-f]+)\*/", line):
            number = int(address[1], 16) // INSTRUCTION_BYTES
            labels |= dict.fromkeys(waiting, number)
            waiting = []
            if branch := re.search(r"\bBRA(?:\.\w+)* .*`\((\.L_x_\d+)\)", line):
                branches.append((branch[1], number))
    loops = [(labels[label], number) for label, number in branches if label in labels and labels[label] < number]
    assert len(loops) > 3
    assert list(loops_of(instructions(cubin.image, "product"))) == loops
