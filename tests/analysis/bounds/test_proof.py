"""Claims about the accesses of single plans."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest

from cugen.analysis.bounds.claims import BoundsClaim, OutOfBounds, bounds_summary
from cugen.analysis.bounds.proof import prove_bounds
from cugen.kernel import generate
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access, IndexLocal
from cugen.plan.nodes import Comparison, For, Guard, If, Index, Let, Loop, Node, Store
from cugen.plan.symbols import integer, symbol
from cugen.schedule.planner import make_plan
from cugen.spec.expressions import Const, Local, Op
from cugen.spec.load import load_text as load_all_of
from cugen.spec.model import Spec
from cugen.spec.types import BOOL, INT32, INT64
from tests.analysis.bounds.faults import planted

COPY = """
cugen: 1
kernel: copied
params: {N: %s}
arrays: {x: {shape: [N], dtype: float32}, y: {shape: [N], dtype: float32}}
compute: y[i] = x[i]
"""


def load_text(text: str) -> Spec:
    (spec,) = load_all_of(text)
    return spec


def claims_of(text: str) -> tuple[BoundsClaim, ...]:
    return generate(load_text(text)).bounds


def verdicts(text: str) -> Counter[str]:
    return Counter(claim.verdict for claim in claims_of(text))


@pytest.mark.parametrize("size", ["300", "{range: [0, 2000000]}", "{range: [4, 70000], multiple_of: 4}"])
def test_a_guard_by_the_size_proves_a_copy_for_every_size(size):
    assert verdicts(COPY % size).keys() == {"proved"}


def test_a_gather_is_unknown_where_nothing_bounds_what_is_read():
    text = """
cugen: 1
kernel: gathered
params: {N: 100, V: 50}
arrays: {t: {shape: [N], dtype: int32}, x: {shape: [V], dtype: float32%s}, y: {shape: [N], dtype: float32}}
compute: y[i] = x[t[i]]
"""
    (unknown,) = (claim for claim in claims_of(text % "") if claim.verdict == "unknown")
    assert unknown.access.array.name == "x"
    assert unknown.reason == "the subscript depends on the value t_i, which is read from memory"
    for boundary in ("clamp", "zero", "wrap"):
        assert verdicts(text % f", boundary: {boundary}").keys() == {"proved"}


def test_a_read_that_only_a_selection_keeps_in_bounds_is_proved_by_it():
    text = """
cugen: 1
kernel: shifted
params: {N: 100}
arrays: {x: {shape: [N], dtype: float32}, y: {shape: [N], dtype: float32}}
compute: y[i] = x[i - 10] if i >= 10 else 0
"""
    assert verdicts(text).keys() == {"proved"}


GEMM_OF_TILES = """
cugen: 1
kernel: rows_of_tiles
target: sm_90a
params: {M: dynamic, N: %d, K: 3368}
arrays:
  x: {shape: [M, K], dtype: float16}
  w: {shape: [N, K], dtype: float16}
  b: {shape: [N], dtype: float32}
  y: {shape: [M, N], dtype: float32}
compute: y[m, n] = exp(sum(x[m, k] * w[n, k], k) + b[n])
"""


@pytest.mark.parametrize("n", [512, 2347])
def test_the_end_of_a_loop_over_tiles_that_is_known_at_launch_is_a_fact_of_its_index(n):
    """The column of a tile is a quotient by the rows of its group, which are positive since the tile is one."""
    assert verdicts(GEMM_OF_TILES % n).keys() == {"proved"}


GEMM_WITH_A_RESIDUAL = """
cugen: 1
kernel: residual
target: %s
params: {M: 8192, N: 4096, K: 4096}
arrays:
  a: {shape: [M, K], dtype: %s}
  b: {shape: [N, K], dtype: %s}
  r: {shape: [M, N], dtype: %s}
  y: {shape: [M, N], dtype: %s}
compute: y[m, n] = r[m, n] + sum(a[m, k] * b[n, k], k)
"""


def test_a_branch_of_warps_and_the_number_of_tiles_bound_the_quotients_by_which_consumers_read():
    """`64 * (thread / 128)` where `thread < 256`, and the row of tile `tile / 256` where `tile < 1024`."""
    assert verdicts(GEMM_WITH_A_RESIDUAL % ("sm_90a", *["bfloat16"] * 4)).keys() == {"proved"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("sizes", ["{M: 4096, N: 2048, K: 4096}", "{M: 3072, N: 1792, K: 2560}"])
def test_tiles_and_partial_sums_of_stream_k_are_inside_by_their_parts(sizes):
    """Blocks, work units and peers are evaluated, whose quotients are no affine forms; elements of a tile are not."""
    text = f"""
cugen: 1
kernel: last_waves
target: sm_90
params: {sizes}
arrays:
  a: {{shape: [M, K], dtype: float32}}
  b: {{shape: [K, N], dtype: float32}}
  y: {{shape: [M, N], dtype: float32}}
compute: y[m, n] = sum(a[m, k] * b[k, n], k)
"""
    claims = claims_of(text)
    assert "unknown" not in {claim.verdict for claim in claims}
    assert any(claim.reason.startswith("inside by its parts") for claim in claims)


def test_an_output_with_a_product_of_sizes_says_that_each_is_positive():
    text = """
cugen: 1
kernel: grouped
params: {T: 17, G: {range: [0, 5000]}, R: {range: [0, 5000]}}
arrays:
  x: {shape: [T, G], dtype: float32}
  y: {shape: [G * R, T], dtype: float32}
compute: y[h, t] = x[t, h // R]
"""
    assert verdicts(text).keys() == {"proved"}


def test_requirements_of_a_spec_are_facts_of_its_sizes():
    text = """
cugen: 1
kernel: windowed
params: {N: {range: [1, 5000]}, M: {range: [1, 5000]}}
require: [M <= N]
arrays: {x: {shape: [N], dtype: float32}, y: {shape: [M], dtype: float32}}
indices: {i: M}
compute: y[i] = x[i]
"""
    assert verdicts(text).keys() == {"proved"}


def test_a_plan_with_an_access_that_is_seen_outside_is_not_written(monkeypatch):
    spec = load_text(COPY % 300)
    plan = make_plan(spec)
    (kernel,) = plan.kernels
    faulty = next(changed for name, changed in planted(kernel) if name == "x shifted by 1")
    monkeypatch.setattr("cugen.kernel.make_plan", lambda _: replace(plan, kernels=(faulty,)))
    with pytest.raises(OutOfBounds, match=r"^copied: x\[.*\] is outside of its array: at "):
        generate(spec)


@pytest.mark.parametrize("size", ["{range: [1, 1000]}", "{range: [0, 5000], multiple_of: 12}", "{range: [996, 996]}"])
def test_a_fault_is_refuted_by_an_example_of_sizes_that_are_known_at_launch(size):
    plan = make_plan(load_text(COPY % size))
    (kernel,) = plan.kernels
    faulty = next(changed for name, changed in planted(kernel) if name == "x shifted by 1")
    (refuted,) = (claim for claim in prove_bounds(faulty, plan.context) if claim.verdict != "proved")
    assert refuted.verdict == "refuted"
    assert re.search(r"^at .* = \d+, for N = \d+$", refuted.reason)


def test_sizes_that_a_spec_refuses_are_no_examples():
    plan = make_plan(load_text(COPY % "{range: [1, 1000]}" + "require: [N > 500]\n"))
    (kernel,) = plan.kernels
    faulty = next(changed for name, changed in planted(kernel) if name == "x shifted by 1")
    assert {claim.verdict for claim in prove_bounds(faulty, plan.context)} == {"proved", "unknown"}


def test_the_head_names_the_first_access_that_is_unknown():
    kernel = generate(load_text(COPY % 300))
    assert bounds_summary(kernel.bounds) == "2 of 2 accesses proved"
    assert "// bounds    2 of 2 accesses proved\n" in kernel.source
    unknown = [replace(claim, verdict="unknown", reason="why") for claim in kernel.bounds]
    assert bounds_summary(unknown[:1]) == f"0 of 1 accesses proved, 1 unknown: {unknown[0].text}, why"
    assert bounds_summary(unknown) == f"0 of 2 accesses proved, 2 unknown, such as {unknown[0].text}, why"


class TestNodes:
    """A store to 16 elements by 32 threads, under conditions of all kinds."""

    def verdict(self, *around: Node, subscript=None) -> str:
        plan = make_plan(load_text(COPY % 16))
        (planned,) = plan.kernels
        kernel = replace(planned, parts=(("body", around),), block=(32, 1, 1), grid=(integer(1),) * 3)
        (claim,) = prove_bounds(kernel, plan.context)
        return claim.verdict

    def store(self, subscript) -> Store:
        plan = make_plan(load_text(COPY % 16))
        return Store(Access(plan.context.arrays["y"], (subscript,), "store"), Const(0, plan.context.arrays["y"].dtype))

    THREAD = symbol("threadIdx.x")
    LANE = Op("lt", (IndexLocal("threadIdx.x", INT64), Const(16, INT64)), BOOL)

    def test_without_a_guard_it_is_refuted(self):
        assert self.verdict(self.store(self.THREAD)) == "refuted"

    def test_a_guard_proves_it(self):
        guard = Guard((Comparison(self.THREAD, "<", integer(16)),))
        assert self.verdict(If(guard, (self.store(self.THREAD),))) == "proved"
        assert self.verdict(If(guard, (), (self.store(self.THREAD),))) == "refuted"

    def test_a_disjunction_proves_it_in_each_case(self):
        outside = Guard((Comparison(self.THREAD, ">=", integer(8)), Comparison(self.THREAD, "<", integer(32))))
        assert self.verdict(If(outside, (), (self.store(self.THREAD),))) == "proved"
        assert self.verdict(If(outside, (), (self.store(self.THREAD + 9),))) == "refuted"

    def test_a_condition_that_is_no_guard_proves_it_or_leaves_it_unknown(self):
        either = Op("or", (self.LANE, self.LANE), BOOL)
        assert self.verdict(If(either, (self.store(self.THREAD),))) == "proved"
        assert self.verdict(If(either, (), (self.store(self.THREAD),))) == "unknown"
        assert self.verdict(If(either, (self.store(self.THREAD + 1),))) == "unknown"

    def test_a_counter_that_is_doubled_is_no_count(self):
        """Lanes from the counter's value on are fewer than from its number on."""
        distance = Index("distance", integer(0), (0, 31))
        guard = Guard((Comparison(symbol("distance"), ">=", integer(3)),))
        loop = Loop(distance, integer(0), integer(3), doubles=1)
        assert self.verdict(For(loop, (If(guard, (self.store(integer(16)),)),))) == "unknown"
        assert self.verdict(For(loop, (self.store(symbol("distance")),))) == "unknown"

    def test_what_the_planner_trusts_of_data_bounds_no_loop(self):
        plan = make_plan(load_text(COPY % 16))
        (planned,) = plan.kernels
        length, k = Local("length", INT32), Index("k", integer(0), (0, 15))
        body = Let(length, Const(3, INT32)), For(Loop(k, integer(0), symbol("length")), (self.store(symbol("k")),))
        trusted = *planned.ranges, (symbol("length"), (0, 16)), (symbol("k"), (0, 15))
        (claim,) = prove_bounds(replace(planned, parts=(("body", body),), ranges=trusted), plan.context)
        assert claim.verdict == "unknown"

    def test_what_never_runs_is_proved(self):
        loop = Loop(Index("k", integer(0), (0, 0)), integer(4), integer(4))
        assert self.verdict(For(loop, (self.store(integer(99)),))) == "proved"


def test_the_unchanged_kernel_has_a_claim_for_each_access_in_order():
    kernel = generate(load_text(COPY % 300))
    (launch,) = kernel.plan.kernels
    assert isinstance(launch, Kernel)
    assert [claim.access.array.name for claim in kernel.bounds] == ["x", "y"]
