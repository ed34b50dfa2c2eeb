"""Tensor-core instructions and the MMAs of the plan that they belong to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cugen.compiled import sass
from cugen.compiled.mmas import CompiledMma, compiled_mmas, multiply_adds
from cugen.compiled.sass import Instruction, Program
from cugen.kernel import Kernel, generate
from cugen.plan.nodes import Mma
from cugen.plan.traversal.walking import walk_nodes
from cugen.spec.load import load_text
from tests.compiled.test_kernels import compiled, single

# 3 blocks of 2 warps, each with 2 x 2 MMAs of m16n8k16 in one k-tile.
PRODUCT = """
cugen: 1
kernel: product
params: {M: 96, K: 16, N: 32}
arrays:
  A: {shape: [M, K], dtype: float16}
  B: {shape: [K, N], dtype: float16}
  C: {shape: [M, N], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {family: gemm, cores: tensor, block: {m: 32, n: 32}, thread: {m: 4, n: 4}, step: {k: 16}, stages: 1}
"""
WARP_MMAS = 3 * 2 * 4
ADDRESS = 0x40


def instruction(opcode: str, line: int = 1, address: int = ADDRESS) -> Instruction:
    return Instruction(address, "", opcode, ("R0", "R4", "R8", "R0"), line)


@pytest.fixture(scope="module")
def product() -> Kernel:
    (spec,) = load_text(PRODUCT)
    return generate(spec, analysis=False)


def of_code(kernel: Kernel, *opcodes: str) -> tuple[tuple[CompiledMma, ...], tuple[Instruction, ...]]:
    """The MMAs of code of these instructions, all at the line of the kernel's only one."""
    (planned,) = kernel.plan.kernels
    (node,) = (node for node in walk_nodes(planned.body) if isinstance(node, Mma))
    code = [instruction(opcode, address=ADDRESS + 16 * n) for n, opcode in enumerate(opcodes)]
    params = {kernel.context.symbols[p.name].name: p.value for p in kernel.spec.params}
    return compiled_mmas(planned, Program("product", tuple(code)), {node.acc_upper.serial: 1}, params)


@pytest.mark.parametrize(
    ("opcode", "expected"),
    [
        ("HMMA.16816.F32", 16 * 8 * 16),
        ("HMMA.1688.F32.TF32", 16 * 8 * 8),
        ("IMMA.16832.S8.S8", 16 * 8 * 32),
        ("IMMA.8816.S8.S8", 8 * 8 * 16),
        ("QMMA.16832.F32.E4M3.E4M3", 16 * 8 * 32),
        ("HGMMA.64x256x16.F32.BF16", 16 * 256 * 16),  # of one warp of four
        ("QGMMA.64x8x32.F32.E4M3.E4M3", 16 * 8 * 32),
        ("DMMA.884", 8 * 8 * 4),
        ("DMMA.16x8x4", 16 * 8 * 4),
        ("HMMA.SP.16832.F32", 0),
    ],
)
def test_multiply_adds_are_those_of_the_shape_in_the_opcode(opcode, expected):
    assert multiply_adds(instruction(opcode)) == expected


def test_an_opcode_may_have_small_letters():
    text = "//------ .text.k   ---\n        /*0000*/  DMMA.16x8x4 R8, R8, R4, R8 ;"
    assert sass.parse(text)["k"].instructions[0].opcode == "DMMA.16x8x4"


@pytest.mark.parametrize(("opcode", "parts"), [("HMMA.16816.F32", 1), ("HMMA.1688.F32", 2)])
def test_instructions_that_make_up_the_mma_are_executed_in_each_trip(product, opcode, parts):
    ((actual,), unexplained) = of_code(product, *[opcode] * (4 * parts))
    assert unexplained == ()
    assert (actual.executions, actual.reason) == (WARP_MMAS * parts, "")


@pytest.mark.parametrize(
    "opcodes",
    [
        ["HMMA.16816.F32"] * 3,
        ["HMMA.16816.F32"] * 8,
        ["HMMA.16816.F32"] * 3 + ["HMMA.1688.F32"] * 2,
        ["HMMA.SP.16832"] * 4,
    ],
    ids=["too few", "too many", "two shapes", "an unknown shape"],
)
def test_other_numbers_of_instructions_leave_executions_unknown(product, opcodes):
    ((actual,), _) = of_code(product, *opcodes)
    assert actual.executions is None
    assert actual.reason.startswith(f"unexplained: {len(opcodes)} instructions for 4 trips")


def test_an_instruction_at_another_line_belongs_to_no_mma(product):
    (planned,) = product.plan.kernels
    (node,) = (node for node in walk_nodes(planned.body) if isinstance(node, Mma))
    params = {product.context.symbols[p.name].name: p.value for p in product.spec.params}
    stranger = replace(instruction("HMMA.16816.F32"), line=2)
    actual = compiled_mmas(planned, Program("product", (stranger,)), {node.acc_upper.serial: 1}, params)
    assert actual[1] == (stranger,)


@pytest.mark.slow
@pytest.mark.parametrize(("target", "parts"), [("sm_75", 2), ("sm_90", 1)])
def test_compilers_make_one_or_several_instructions_of_an_mma(target, parts):
    kernel = single(PRODUCT, target)
    assert kernel.unexplained == ()
    assert sum(m.executions or 0 for m in kernel.mmas) == WARP_MMAS * parts


@pytest.mark.slow
@pytest.mark.parametrize(("narrow", "products"), [("bfloat16", 3), ("float16", 6)])
def test_each_product_of_parts_of_a_float32_operand_is_an_instruction(narrow: str, products: int) -> None:
    text = PRODUCT.replace("A: {shape: [M, K], dtype: float16}", "A: {shape: [M, K], dtype: float32}")
    (spec,) = load_text(text.replace("dtype: float16", f"dtype: {narrow}"))
    (of_kernel,) = compiled(generate(spec, analysis=False), "sm_90")
    assert of_kernel.unexplained == ()
    assert [mma.reason for mma in of_kernel.mmas if mma.reason] == []
    assert sum(mma.executions or 0 for mma in of_kernel.mmas) == WARP_MMAS * products
