"""Parted warps and executions equal those of a walk over every block, lane and pass."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import prod

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.analysis.totals.budget import Unknown
from cugen.analysis.totals.executions import BranchDivergence, ExecutionCounts
from cugen.analysis.totals.sites import steps
from cugen.kernel import Kernel, generate
from cugen.plan.kernel import Kernel as PlannedKernel
from cugen.plan.nodes import Comparison, Copy, Define, For, Guard, If, Load, ReturnUnless
from cugen.spec.load import load_text
from tests.drawn import examples

Lane = dict[sympy.Symbol, sympy.Integer]


class Walk:
    """The oracle: runs all nodes for one warp after the other; `came` and `went` count lanes at each decision."""

    def __init__(self, kernel: PlannedKernel, params: dict[str, int]) -> None:
        self.partings: dict[int, Counter[str]] = {}
        self.runs: dict[int, Counter[str]] = {}
        fixed = {sympy.Symbol(name, integer=True): sympy.Integer(value) for name, value in params.items()}
        grid = [int(extent.xreplace(fixed)) for extent in kernel.grid]
        for block in range(prod(grid)):
            block_index = (block % grid[0], block // grid[0] % grid[1], block // (grid[0] * grid[1]))
            for first in range(0, kernel.threads, 32):
                lanes = []
                for thread in range(first, min(first + 32, kernel.threads)):
                    x, y, _ = kernel.block
                    indices = {"threadIdx": (thread % x, thread // x % y, thread // (x * y)), "blockIdx": block_index}
                    values = {
                        sympy.Symbol(f"{name}.{axis}", integer=True): sympy.Integer(value)
                        for name, index in indices.items()
                        for axis, value in zip("xyz", index, strict=True)
                    }
                    lanes.append({**fixed, **values})
                self._run(kernel.body, lanes)

    def _run(self, nodes, lanes: list[Lane]) -> None:
        for node in nodes:
            self.runs.setdefault(id(node), Counter()).update(warps=bool(lanes), lanes=len(lanes))
            match node:
                case Define():
                    for lane in lanes:
                        lane[node.index.symbol] = node.index.definition.xreplace(lane)
                case ReturnUnless():
                    lanes = self._decide(node, lanes, node.guard)
                case For():
                    self._loop(node, lanes)
                case If(condition=Guard()):
                    then = self._decide(node, lanes, node.condition)
                    self._run(node.then, then)
                    self._run(node.orelse, [lane for lane in lanes if lane not in then])
                case Load(guard=Guard()) | Copy(guard=Guard()):
                    self._decide(node, lanes, node.guard)

    def _decide(self, node, lanes: list[Lane], guard: Guard) -> list[Lane]:
        went = [lane for lane in lanes if all(holds(term, lane) for term in guard.terms)]
        self._note(node, len(lanes), len(went), bool(lanes))
        return went

    def _loop(self, node: For, lanes: list[Lane]) -> None:
        loop, came = node.loop, len(lanes)
        for lane in lanes:
            lane[loop.index.symbol] = loop.start.xreplace(lane)
        while going := [lane for lane in lanes if lane[loop.index.symbol] < loop.stop.xreplace(lane)]:
            self._note(node, came, len(going), True)
            self._run(node.body, going)
            for lane in going:
                lane[loop.index.symbol] += loop.step
            lanes = going

    def _note(self, node, came: int, went: int, warps: bool) -> None:
        counts = self.partings.setdefault(id(node), Counter())
        counts.update(warps=warps, mixed=0 < went < came, taken=went)


def holds(term: Comparison, lane: Lane) -> bool:
    a, b = int(term.left.xreplace(lane)), int(term.right.xreplace(lane))
    return {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "==": a == b, "!=": a != b}[term.operator]


def params_of(kernel: Kernel) -> dict[str, int]:
    return {p.name: p.value for p in kernel.spec.params if p.value is not None}


def check_against_walk(text: str) -> int:
    """How many decisions were compared."""
    compared = 0
    for spec in load_text(text):
        kernel = generate(spec)
        for planned in kernel.plan.kernels:
            launch = replace(planned, parts=(("body", planned.body),))  # the same nodes at each access of `body`
            walk, executions = Walk(launch, params_of(kernel)), ExecutionCounts(launch.block)
            for step in steps(launch, params_of(kernel)):
                runs = walk.runs.get(id(step.node), Counter())
                actual = executions.of(step.point)
                assert (actual.warps, actual.lanes, actual.exact) == (runs["warps"], runs["lanes"], True), step.node
                if step.inside.predicates != step.point.predicates:
                    expected = walk.partings.get(id(step.node), Counter())
                    parting = executions.divergence(step)
                    got = (parting.warps, parting.mixed_warps, parting.taken)
                    assert got == (expected["warps"], expected["mixed"], expected["taken"]), step.node
                    compared += 1
    return compared


def test_the_guards_of_a_tiled_product_part_the_warps_that_a_walk_finds():
    assert (
        check_against_walk("""
cugen: 1
kernel: product
params: {M: 21, K: 10, N: 19}
arrays:
  A: {shape: [M, K], dtype: float32, memory: shared}
  B: {shape: [K, N], dtype: float32, memory: shared}
  C: {shape: [M, N], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {block: {m: 8, n: 8}, step: {k: 4}}
""")
        == 5
    )


def test_register_tiles_part_the_warps_that_a_walk_finds():
    assert (
        check_against_walk("""
cugen: 1
kernel: product
params: {M: 21, K: 7, N: 19}
arrays:
  A: {shape: [M, K], dtype: float32, memory: shared}
  B: {shape: [K, N], dtype: float32, memory: shared}
  C: {shape: [M, N], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {block: {m: 20, n: 12}, thread: {m: 2, n: 2}, step: {k: 5}}
""")
        >= 3
    )


STATEMENTS = {
    "triangle": "C[m, n] = sum(A[m, k], k, where=k <= n)",
    "remainder": "C[m, n] = A[m, n] if n % 3 == 0 else A[m, 0]",
    "halves": "C[m, n] = A[m, n] if m // 2 >= 3 else A[0, n]",
    "outside": "C[m, n] = A[m - 1, n + 2]",
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", STATEMENTS)
@settings(max_examples=examples(6), deadline=None, derandomize=True)
@given(st.integers(1, 20), st.integers(1, 40), st.sampled_from(["{m: 4, n: 8}", "{m: 3, n: 12}", "{m: 1, n: 32}"]))
def test_statements_part_the_warps_that_a_walk_finds(name, m, n, block):
    check_against_walk(f"""
cugen: 1
kernel: statement
params: {{M: {m}, N: {n}}}
arrays:
  A: {{shape: [M, N], dtype: float32, boundary: zero}}
  C: {{shape: [M, N], dtype: float32}}
compute: "{STATEMENTS[name]}"
schedule: {{family: direct, block: {block}}}
""")


def test_what_depends_on_data_is_unknown_and_its_executions_an_upper_bound():
    (spec,) = load_text("""
cugen: 1
kernel: picked
params: {N: 100}
arrays:
  A: {shape: [N], dtype: float32}
  B: {shape: [N], dtype: float32}
  C: {shape: [N], dtype: float32}
compute: "C[i] = A[i] if A[i] > 0 else B[i]"
schedule: {family: direct}
""")
    launch = generate(spec).plan.kernels[0]
    executions, walked = ExecutionCounts(launch.block), list(steps(launch, {"N": 100}))
    choice = next(step for step in walked if isinstance(step.node, If))
    with pytest.raises(Unknown, match="depends on data"):
        executions.divergence(choice)
    inside = executions.of(choice.inside)
    assert (inside.lanes, inside.exact) == (100, False)


def test_a_loop_of_equal_length_for_all_lanes_parts_nothing():
    (spec,) = load_text("""
cugen: 1
kernel: rows
params: {M: 64, N: 12}
arrays:
  A: {shape: [M, N], dtype: float32}
  C: {shape: [M], dtype: float32}
compute: C[m] = sum(A[m, k], k)
schedule: {family: direct, block: {m: 64}}
""")
    launch = generate(spec).plan.kernels[0]
    loop = next(step for step in steps(launch, {"M": 64, "N": 12}) if isinstance(step.node, For))
    assert ExecutionCounts(launch.block).divergence(loop) == BranchDivergence(
        warps=24, mixed_warps=0, lanes=768, taken=768
    )
