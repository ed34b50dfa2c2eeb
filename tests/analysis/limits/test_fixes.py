"""The smallest padding or swizzle, verified by the analysis of the new plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.analysis.limits.fixes import Fixes, LaunchCost, find_fixes
from cugen.analysis.verdicts.report import AccessReport, analyze_kernel
from cugen.plan.kernel import Plan
from cugen.schedule.planner import make_plan
from cugen.spec.diagnostics import SpecError
from cugen.spec.editing import RowLayout
from cugen.spec.load import load_text
from cugen.spec.model import Spec

TRANSPOSE = """\
cugen: 1
kernel: turn
params: {M: 128, N: 64}
arrays:
  A: {shape: [M, N], dtype: TYPE, memory: MEMORY}
  B: {shape: [N, M], dtype: TYPE}
compute: B[n, m] = A[m, n]
schedule: {block: {m: SIDE, n: SIDE}, thread: {n: PER_THREAD}}
"""
PRODUCT = """\
cugen: 1
kernel: product
params: {M: 64, K: 48, N: 80}
arrays:
  A: {shape: [M, K], dtype: float32, memory: MEMORY}
  B: {shape: [K, N], dtype: float32, memory: shared}
  C: {shape: [M, N], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {block: {m: 16, n: 16}, step: {k: 16}}
"""


def spec_of(text: str, target: str = "sm_90", **words: object) -> Spec:
    for word, value in {"MEMORY": "shared", "TYPE": "float32", "SIDE": 32, "PER_THREAD": 4, **words}.items():
        text = text.replace(word, str(value))
    (spec,) = load_text(text, target=target)
    return spec


def fixes_of(spec: Spec, plan: Callable[[Spec], Plan] = make_plan, **params: int) -> Fixes:
    return find_fixes([spec], plan, params)


def shared(spec: Spec) -> list[AccessReport]:
    params = {p.name: p.value for p in spec.params if p.value is not None}
    reports = [r for kernel in make_plan(spec).kernels for r in analyze_kernel(kernel, spec.target, params).accesses]
    return [report for report in reports if report.space == "shared"]


def cost_of(spec: Spec) -> int:
    return sum(report.cost for report in shared(spec))


def only_cost(fixes: Fixes) -> tuple[RowLayout, LaunchCost, LaunchCost]:
    (fix,) = fixes.fixes
    ((before, after),) = fix.costs
    return fix.rows, before, after


def test_one_element_of_padding_clears_the_32_way_transpose() -> None:
    spec = spec_of(TRANSPOSE)
    fixes = fixes_of(spec)
    rows, before, after = only_cost(fixes)
    assert rows == RowLayout(pad=1)
    # 8 blocks of 8 warps, 4 rows in each thread: 256 stores and 256 loads.
    assert (before.wavefronts, after.wavefronts, after.ideal) == (256 + 32 * 256, 512, 512)
    assert (before.shared_bytes, after.shared_bytes) == (32 * 32 * 4, 32 * 33 * 4)
    assert fixes.fixes[0].why == ("tile[ty + r][tx]: 1 at every pad", "tile[tx][ty + r]: gcd(32 + pad, 32)")
    assert (fixes.incurable, fixes.fixes[0].remains) == ((), ())
    assert [report.verdict for report in shared(fixes.specs[0])] == ["ideal", "ideal"]


def test_17_words_cure_a_16x16_tile_on_16_banks() -> None:
    rows, _, after = only_cost(fixes_of(spec_of(TRANSPOSE, "1.3", SIDE=16, PER_THREAD=1)))
    assert rows == RowLayout(pad=1)
    assert after.wavefronts == after.ideal


def test_on_32_banks_only_a_swizzle_serves_both_the_rows_and_the_columns_of_a_16x16_tile() -> None:
    # A warp stores two rows, which want a pitch of 16 mod 32, and loads two columns, which want 18.
    spec = spec_of(TRANSPOSE, "9.0", SIDE=16, PER_THREAD=1)
    rows, _, after = only_cost(fixes_of(spec))
    assert rows == RowLayout(swizzle=True)
    assert after.wavefronts == after.ideal


def test_where_no_pad_serves_all_accesses_the_cheapest_is_taken_and_what_remains_is_named() -> None:
    fixes = fixes_of(spec_of(TRANSPOSE, "9.0", SIDE=16, PER_THREAD=1), without_swizzles)
    rows, before, after = only_cost(fixes)
    assert not rows.swizzle
    assert before.wavefronts > after.wavefronts > after.ideal
    assert [report.access.kind for report in fixes.fixes[0].remains] == ["store"]


def test_a_pad_that_does_harm_is_taken_away() -> None:
    # With rows of 17 words the two rows that a warp stores meet in one bank, and the loads were fine without a pad.
    fixes = fixes_of(spec_of(PRODUCT, MEMORY="{space: shared, pad: 1}"))
    rows, before, after = only_cost(fixes)
    assert rows == RowLayout(pad=0)
    assert fixes.fixes[0].array == "A"
    assert before.wavefronts > after.wavefronts == after.ideal
    assert after.shared_bytes == before.shared_bytes - 16 * 4


def test_nothing_is_done_where_every_tile_is_ideal() -> None:
    for memory in ("{space: shared, pad: 1}", "{space: shared, swizzle: xor}", "{space: shared, pad: 3}"):
        spec = spec_of(TRANSPOSE, MEMORY=memory)
        fixes = fixes_of(spec)
        assert (fixes.specs, fixes.fixes, fixes.incurable) == ((spec,), (), ())


def test_a_tile_that_the_generator_chose_by_itself_is_placed_by_name() -> None:
    # The family pads by itself with one word, which 16 x 16 on 32 banks isn't content with.
    fixes = fixes_of(spec_of(TRANSPOSE.replace(", memory: MEMORY", ""), SIDE=16, PER_THREAD=1))
    assert only_cost(fixes)[0] == RowLayout(swizzle=True)
    assert fixes.specs[0].array("A").memory.space == "shared"


@pytest.mark.slow
def test_tiles_of_one_kernel_are_fixed_on_top_of_each_other() -> None:
    schedule = "{block: {m: 64, n: 32}, thread: {m: 4, n: 4}, step: {k: 16}}"
    text = PRODUCT.replace("{block: {m: 16, n: 16}, step: {k: 16}}", schedule)
    fixes = fixes_of(spec_of(text, MEMORY="{space: shared, pad: 1}"))
    assert [fix.array for fix in fixes.fixes] == ["A", "B"]
    first, second = (fix.costs[0] for fix in fixes.fixes)
    assert first[1].shared_bytes == second[0].shared_bytes
    assert all(report.verdict == "ideal" for report in shared(fixes.specs[0]))


def test_a_swizzle_is_preferred_where_padding_costs_a_block_of_the_sm() -> None:
    # With 1 KB reserved for each block, 228 KB hold 25 tiles of 32 x 32 doubles, and 24 of 32 x 33.
    spec = spec_of(TRANSPOSE, TYPE="float64", PER_THREAD=16)
    rows, before, after = only_cost(fixes_of(spec))
    assert rows == RowLayout(swizzle=True)
    assert before.occupancy.blocks_per_sm == after.occupancy.blocks_per_sm == 25
    rows, _, padded = only_cost(fixes_of(spec, without_swizzles))
    assert rows == RowLayout(pad=1)
    assert (padded.wavefronts, padded.occupancy.blocks_per_sm) == (after.wavefronts, 24)


def without_swizzles(spec: Spec) -> Plan:
    if any(array.memory.swizzle for array in spec.arrays):
        raise refusal()
    return make_plan(spec)


def refusal() -> SpecError:
    with pytest.raises(SpecError) as caught:
        load_text("cugen: 2\n")
    return caught.value


def test_without_a_swizzle_the_pad_is_taken_whatever_it_costs() -> None:
    spec = spec_of(TRANSPOSE)
    assert only_cost(fixes_of(spec, without_swizzles))[0] == RowLayout(pad=1)


def test_a_tile_that_no_pad_fixes_is_listed_with_its_law() -> None:
    text = "cugen: 1\nkernel: strided\nparams: {N: 1024}\narrays:\n"
    text += "  w: {shape: [64], dtype: float32, memory: shared}\n  y: {shape: [N], dtype: float32}\n"
    spec = spec_of(f"{text}compute: y[i] = w[(i * 2) % 64]\n")
    fixes = fixes_of(spec)
    assert (fixes.specs, fixes.fixes) == ((spec,), ())
    (unfixable,) = fixes.incurable
    assert unfixable.array == "w"
    assert [report.kind for report in (r.access for r in unfixable.accesses)] == ["load"]
    assert unfixable.reason.startswith("no pad makes it cheaper, nor does `swizzle: xor`; wavefronts")
    assert "w_tile[threadIdx.x * 2 % 64]: 2 at every pad" in unfixable.reason


def test_tiles_with_data_dependent_accesses_are_listed() -> None:
    text = "cugen: 1\nkernel: picked\nparams: {N: 1024}\narrays:\n"
    text += "  t: {shape: [64], dtype: float32, memory: shared}\n  x: {shape: [N], dtype: int32}\n"
    spec = spec_of(f"{text}  y: {{shape: [N], dtype: float32}}\ncompute: y[i] = t[x[i] % 64]\n")
    fixes = fixes_of(spec)
    assert (fixes.fixes, fixes.incurable) == ((), ())
    assert [report.access.array.name for report in fixes.unknown] == ["t"]


def test_a_tile_that_no_key_of_the_spec_shapes_is_left() -> None:
    spec = spec_of(TRANSPOSE)
    silent = replace(spec, arrays=tuple(a for a in spec.arrays if a.name == "B"))
    (unfixable,) = fixes_of(silent, lambda candidate: make_plan(spec)).incurable
    assert (unfixable.array, unfixable.reason) == (
        "A",
        "the tile is internal to the generator, without a `memory` key in the spec",
    )


def test_a_cheaper_tile_is_no_fix_where_the_way_of_computing_would_change() -> None:
    spec = spec_of(TRANSPOSE)
    naive = replace(spec, arrays=tuple(replace(a, memory=replace(a.memory, space=None)) for a in spec.arrays))
    schedule = replace(dict(spec.schedules)[""], family="direct", block=(), thread=())

    def plan(candidate: Spec) -> Plan:
        return make_plan(spec) if candidate == spec else make_plan(replace(naive, schedules=(("", schedule),)))

    fixes = fixes_of(spec, plan)
    assert (fixes.specs, fixes.fixes) == ((spec,), ())
    assert len(fixes.incurable) == 1


@pytest.mark.slow
def test_variants_are_fixed_by_what_is_best_for_all_of_them() -> None:
    text = TRANSPOSE.replace("params:", "variants: {s: [16, 32]}\nparams:").replace("SIDE", "$s")
    specs = load_text(text.replace("MEMORY", "shared").replace("TYPE", "float32").replace("PER_THREAD", "1"))
    fixes = find_fixes(specs, make_plan, {})
    (fix,) = fixes.fixes
    assert len(fix.costs) == 2
    costs = {rows: sum(cost_of(rows.apply_to(spec, "A")) for spec in specs) for rows in map(RowLayout, range(33))}
    costs[RowLayout(swizzle=True)] = sum(cost_of(RowLayout(swizzle=True).apply_to(spec, "A")) for spec in specs)
    assert sum(after.wavefronts for _, after in fix.costs) == min(costs.values()) == costs[fix.rows]


@pytest.mark.slow
def test_a_size_that_is_given_at_launch_is_fixed_by_its_worst_request() -> None:
    spec = spec_of(TRANSPOSE.replace("{M: 128, N: 64}", "{M: dynamic, N: dynamic}"))
    rows, before, after = only_cost(fixes_of(spec))
    assert (rows, before.per_request) == (RowLayout(pad=1), True)
    assert (before.wavefronts, after.wavefronts, after.ideal) == (33, 2, 2)
    rows, before, after = only_cost(fixes_of(spec, M=128, N=64))
    assert (rows, before.per_request) == (RowLayout(pad=1), False)
    assert (before.wavefronts, after.wavefronts) == (256 + 32 * 256, 512)


@pytest.mark.slow
@given(st.sampled_from(["float32", "float64", "float16", "int8"]), st.sampled_from([8, 12, 16]), st.integers(0, 33))
@settings(max_examples=4, deadline=None)
def test_no_pad_and_no_swizzle_beats_the_fix_and_no_smaller_pad_is_as_cheap(dtype: str, side: int, pad: int) -> None:
    text = TRANSPOSE.replace("{M: 128, N: 64}", "{M: 32, N: 32}")
    spec = spec_of(text, TYPE=dtype, SIDE=side, PER_THREAD=1, MEMORY=f"{{space: shared, pad: {pad}}}")
    fixes = fixes_of(spec)
    fixed = cost_of(fixes.specs[0])
    costs = {p: cost_of(RowLayout(p).apply_to(spec, "A")) for p in range(33)}
    assert fixed <= min(costs.values())
    assert bool(fixes.fixes) == (fixed < cost_of(spec))
    for fix in fixes.fixes:
        assert fix.rows.swizzle or all(cost > fixed for p, cost in costs.items() if p < fix.rows.pad)
