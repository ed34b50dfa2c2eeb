"""Loads that a compiler executes under the conditions of their uses have no predicted executions."""

from __future__ import annotations

import pytest

from cugen.compiled import sass
from cugen.compiled.accesses import CompiledAccess
from cugen.compiled.kernels import compiled_kernels
from cugen.kernel import generate
from cugen.spec.load import load_text
from cugen.toolchain.cuda import compile_cubin, compile_ptx
from tests.compiled.test_executions import program

TARGET = "sm_90"
BRANCHES = """
    S2R R0, SR_TID.X
    LDS R1, [R0]
    @P0 EXIT
    LDS R2, [R0]
    @P1 BRA `(.L_x_0)
    LDS R3, [R0]
    CALL `(.L_x_1)
    .L_x_0:
    LDS R4, [R0]
    @P2 LDS R5, [R0]
    EXIT
    .L_x_1:
    LDS R6, [R0]
    RET
"""
PRODUCTS = """
cugen: 1
kernel: products
params: {{M: {rows}, K: 9}}
arrays:
  A: {{shape: [31, K, M], dtype: float32}}
  B: {{shape: [31, K, 1], dtype: float32}}
  y: {{shape: [31, M, 1], dtype: float32}}
compute: y[b, m, n] = sum(A[b, k, m] * B[b, k, n], k, where=k <= m)
schedule: {{family: batched}}
"""


def conditions(found: sass.Program) -> list[frozenset[object]]:
    return [found.conditions(i) for i in found.instructions if i.name == "LDS"]


def test_a_load_depends_on_the_branches_that_may_pass_it() -> None:
    first, after_exit, in_branch, behind, predicated, _ = conditions(program(BRANCHES))
    assert first == frozenset()
    assert len(after_exit) == 1
    assert after_exit < in_branch
    assert behind == after_exit  # the branch joins, and the call returns
    assert predicated == {*behind, "P2"}


def test_after_an_indirect_branch_nothing_is_known() -> None:
    assert set(conditions(program(BRANCHES.replace("BRA `(.L_x_0)", "BRX R7 0x10")))) == {
        frozenset(),
        frozenset({"P2"}),
    }


# The last block has fewer products: all accesses are guarded.
GUARDED = """
cugen: 1
kernel: guarded
params: {M: 7, N: 7, K: 7, B: 5000}
arrays:
  A: {shape: [B, M, K], dtype: float64}
  B_: {shape: [B, K, N], dtype: float64}
  y: {shape: [B, M, N], dtype: float64}
compute: y[b, m, n] = sum(A[b, m, k] * B_[b, k, n], k, where=k >= n)
"""


def loads(text: str) -> list[CompiledAccess]:
    """The loads of a small product from shared memory."""
    (spec,) = load_text(text)
    kernel = generate(spec, analysis=False)
    image, ptx = (
        compile_cubin(kernel.source, kernel.name, TARGET).image,
        compile_ptx(kernel.source, kernel.name, TARGET),
    )
    params = {kernel.context.symbols[p.name].name: p.value or 0 for p in spec.params}
    (compiled,) = compiled_kernels(kernel.plan, spec, kernel.access_lines(), image, ptx, TARGET, params)
    return [a for a in compiled.accesses if a.space == "shared" and a.access.kind == "load"]


@pytest.mark.slow
def test_elements_that_a_condition_leaves_out_are_not_loaded() -> None:
    a, b = sorted(loads(PRODUCTS.format(rows=5)), key=lambda load: load.access.array.name)
    assert a.executions is None
    assert a.reason.startswith("sunk")
    assert b.executions is not None


@pytest.mark.slow
def test_a_load_of_which_one_instruction_has_a_further_condition_has_no_predicted_executions() -> None:
    a, _ = sorted(loads(GUARDED), key=lambda load: load.access.array.name)
    assert a.executions is None
    assert a.reason.startswith("sunk")
