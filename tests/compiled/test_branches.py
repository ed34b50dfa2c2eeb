"""Branches of machine code at which lanes may part, and what they settle about choices."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cugen.analysis.launches.facts import facts
from cugen.compiled.branches import BRANCHES, divergent_branches, subroutine_blocks, with_machine_code
from cugen.compiled.sass import Instruction, Program
from cugen.kernel import generate
from cugen.spec.load import load_text


def instruction(
    address: int, opcode: str, *operands: str, predicate: str = "", line: int = 0, target: int | None = None
) -> Instruction:
    return Instruction(address, predicate, opcode, operands, line, target)


@pytest.mark.parametrize(
    ("candidate", "is_divergent"),
    [
        (instruction(0, "BRA", predicate="P0", target=32), True),
        (instruction(0, "BRA", "!P1", "`(.L_x_1)", target=32), True),
        (instruction(0, "EXIT", predicate="!P2"), True),
        (instruction(0, "BRX", "R2"), True),
        (instruction(0, "BRA", target=32), False),
        (instruction(0, "BRA", predicate="UP0", target=32), False),
        (instruction(0, "BRA.U", "UP0", "`(.L_x_1)", target=32), False),
        (instruction(0, "BRA.DIV", "UR4", "`(.L_x_1)", predicate="P0", target=32), False),
        (instruction(0, "CALL.REL.NOINC", target=32), False),
        (instruction(0, "FADD", "R0", "R1", "R2", predicate="P0"), False),
    ],
)
def test_a_branch_with_a_predicate_of_the_lanes_may_diverge(candidate, is_divergent):
    program = Program("k", (candidate, instruction(32, "EXIT")))
    assert list(divergent_branches(program)) == ([candidate] if is_divergent else [])


def test_blocks_that_only_calls_reach_are_subroutines():
    program = Program(
        "k",
        (
            instruction(0, "BRA", predicate="P0", target=48),
            instruction(16, "CALL.REL.NOINC", target=64),
            instruction(32, "FADD", "R0", "R1", "R2"),
            instruction(48, "EXIT"),
            instruction(64, "FSETP", "P0", "PT", "R0", "R1", "PT"),
            instruction(80, "RET.REL.NODEC", "R2"),
        ),
    )
    assert subroutine_blocks(program) == {64}


@pytest.fixture
def chosen():
    """A kernel with one choice that may branch, its facts, and the lines of its statements."""
    (spec,) = load_text(
        "cugen: 1\nkernel: k\nparams: {N: 4000}\narrays:\n  x: {shape: [N], dtype: float32}\n"
        "  y: {shape: [N], dtype: float32}\ncompute: y[i] = exp(x[i]) * x[i] if x[i] > 0 else 1\n"
        "schedule: {family: direct}\n"
    )
    kernel = generate(spec)
    (launch,) = kernel.plan.kernels
    return launch, facts(launch, kernel.context, "sm_90", {"N": 4000}), kernel


def line_of(kernel, text):
    return next(n for n, line in enumerate(kernel.source.splitlines(), 1) if text in line and "//" not in line)


def settled_kinds(chosen, *lines):
    launch, known, kernel = chosen
    code = [instruction(16 * n, "BRA", predicate="P0", target=400, line=line) for n, line in enumerate(lines)]
    program = Program("k", (*code, instruction(400, "EXIT")))
    return with_machine_code(known, launch, program, kernel.statement_lines())


def test_a_choice_without_a_branch_in_its_lines_is_a_select(chosen):
    _, known, kernel = chosen
    actual = settled_kinds(chosen, line_of(kernel, "return;"))
    assert [branch.kind for branch in actual.branches] == ["return"]
    assert actual.choices == known.choices + 1


def test_a_choice_with_a_branch_in_its_lines_branches(chosen):
    _, _, kernel = chosen
    (branch,) = [b for b in settled_kinds(chosen, line_of(kernel, " ? ")).branches if b.kind == "choice"]
    assert branch.reason == BRANCHES


def test_a_branch_without_a_line_leaves_a_choice_assumed(chosen):
    _, known, _ = chosen
    assert settled_kinds(chosen, 0) == replace(known)


def test_statements_have_the_lines_of_their_text(chosen):
    launch, _, kernel = chosen
    lines = kernel.source.splitlines()
    texts = ["\n".join(lines[n - 1] for n in kernel.statement_lines()[id(node)]) for node in launch.body]
    assert [type(node).__name__ for node in launch.body] == ["Define", "ReturnUnless", "Load", "Store"]
    for text, expected in zip(texts, ("const int i =", "return;", "= x[i]", "y[i] ="), strict=True):
        assert expected in text


@pytest.mark.slow
def test_heads_of_loops_have_lines_where_templates_place_them():
    (spec,) = load_text(
        "cugen: 1\nkernel: k\nparams: {M: 256, N: 256, K: 256}\narrays:\n  A: {shape: [M, K], dtype: float32}\n"
        "  B: {shape: [K, N], dtype: float32}\n  C: {shape: [M, N], dtype: float32}\n"
        "compute: C[m, n] = sum(A[m, k] * B[k, n], k)\n"
    )
    kernel = generate(spec)
    known = facts(kernel.plan.kernels[0], kernel.context, "sm_90", {"M": 256, "N": 256, "K": 256})
    lines = kernel.statement_lines()
    assert known.branches
    assert all(id(node) in lines for branch in known.branches for node in branch.nodes)
