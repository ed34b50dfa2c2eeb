"""Sizes without a value: the worst residue is found, named, and never undercut by a size that is allowed."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.analysis.verdicts.dynamic import analyze_any_size
from cugen.analysis.verdicts.report import analyze_kernel
from cugen.kernel import generate
from cugen.spec.load import load_text
from tests.drawn import examples


def launch_of(text: str):
    """The first launch, and what each param without a value is a multiple of."""
    (spec,) = load_text(text)
    kernel = generate(spec)
    names = dict(kernel.plan.param_symbols)
    return kernel.plan.kernels[0], {names[p.name]: p.multiple_of for p in spec.params if p.value is None}


def copy_spec(read: str, n: str = "{range: [1, 100000]}", dtype: str = "float32", layout: str = "row") -> str:
    return f"""
cugen: 1
kernel: copy
params: {{M: {{range: [1, 60000]}}, N: {n}}}
arrays:
  A: {{shape: [M, N], dtype: {dtype}, boundary: clamp, layout: {layout}}}
  C: {{shape: [M, N], dtype: {dtype}}}
compute: C[m, n] = {read}
schedule: {{family: direct}}
"""


def worst_of_full_warps(launch, target: str, m: int, n: int) -> dict[str, int]:
    """For each access the most that a warp with all lanes at work costs beyond its ideal, at a given size."""
    actual = analyze_kernel(launch, target, {"M": m, "N": n}).accesses
    return {
        each.text: max((p.excess for p in each.totals.patterns if p.active == 32), default=0)
        for each in actual
        if each.totals is not None
    }


@pytest.mark.sampled(9)
@pytest.mark.parametrize("target", ["sm_20", "sm_61", "sm_90"])
@pytest.mark.parametrize("read", ["A[m, n]", "A[m - 1, n + 1]", "A[m, n] + A[m + 1, n - 3]"])
def test_the_worst_over_all_residues_is_what_some_size_costs_and_no_size_costs_more(read, target):
    launch, dynamic = launch_of(copy_spec(read))
    any_size = {r.text: r.per_request for r in analyze_any_size(launch, target, {}, dynamic).accesses}
    period = 64 if target == "sm_20" else 8
    sizes = [worst_of_full_warps(launch, target, 66, 4096 + n) for n in range(period)]
    for text, each in any_size.items():
        assert max(size[text] for size in sizes) == each.worst - each.worst_ideal, text


@settings(max_examples=examples(20))
@given(
    st.sampled_from([1, 2, 3, 4, 8, 12, 32]),
    st.integers(40, 3000),
    st.sampled_from(["float32", "float64", "int8", "float16"]),
    st.sampled_from(["sm_61", "sm_90"]),
    st.sampled_from(["row", "column"]),
)
def test_no_allowed_size_is_worse_than_what_is_said_of_all(multiple, n, dtype, target, layout):
    n = -(-n // multiple) * multiple
    launch, dynamic = launch_of(copy_spec("A[m, n]", f"{{range: [1, 100000], multiple_of: {multiple}}}", dtype, layout))
    said = {r.text: r for r in analyze_any_size(launch, target, {}, dynamic).accesses}
    for text, excess in worst_of_full_warps(launch, target, 40, n).items():
        if said[text].verdict != "unknown":
            assert excess <= said[text].per_request.worst - said[text].per_request.worst_ideal


@pytest.mark.parametrize(
    ("multiple", "verdict"), [(1, "costly"), (4, "costly"), (8, "ideal"), (64, "ideal"), (12, "costly")]
)
def test_what_a_size_is_a_multiple_of_decides(multiple, verdict):
    launch, dynamic = launch_of(copy_spec("A[m, n]", f"{{range: [1, 100000], multiple_of: {multiple}}}"))
    for actual in analyze_any_size(launch, "sm_90", {}, dynamic).accesses:
        assert actual.verdict == verdict
        assert actual.totals is None


def test_the_worst_residue_is_named_and_reached_at_the_size_that_is_named():
    launch, dynamic = launch_of(copy_spec("A[m, n]"))
    for actual in analyze_any_size(launch, "sm_90", {}, dynamic).accesses:
        said = re.search(r"worst at N mod 8 = (\d)", actual.claim)
        assert said, actual.claim
        named = re.match(
            rf"worst at N mod 8 = {said[1]}, as at M = \d+ and N = (\d+), where its guards hold: ", actual.reason
        )
        assert named, actual.reason
        assert int(named[1]) % 8 == int(said[1])
        assert worst_of_full_warps(launch, "sm_90", 66, int(named[1]))[actual.text] == 1


def test_a_size_with_a_value_is_analysed_exactly():
    launch, dynamic = launch_of(copy_spec("A[m, n]"))
    exact = analyze_any_size(launch, "sm_90", {"M": 100, "N": 333}, {})
    assert (
        exact.accesses[0].totals.warps == analyze_kernel(launch, "sm_90", {"M": 100, "N": 333}).accesses[0].totals.warps
    )
    assert dynamic == {"M": 1, "N": 1}


def test_one_given_size_leaves_the_other_open():
    launch, _ = launch_of(copy_spec("A[m, n]"))
    assert {r.verdict for r in analyze_any_size(launch, "sm_90", {"N": 64}, {"M": 1}).accesses} == {"ideal"}
    assert {r.verdict for r in analyze_any_size(launch, "sm_90", {"N": 63}, {"M": 1}).accesses} == {"costly"}


def test_tiles_do_not_depend_on_the_size():
    launch, dynamic = launch_of("""
cugen: 1
kernel: product
params: {M: {range: [1, 60000]}, K: {range: [1, 60000]}, N: {range: [1, 60000]}}
arrays:
  A: {shape: [M, K], dtype: float32, memory: {space: shared, pad: 1}}
  B: {shape: [K, N], dtype: float32, memory: shared}
  C: {shape: [M, N], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {block: {m: 16, n: 16}}
""")
    exact = {r.text: r for r in analyze_kernel(launch, "sm_90", {"M": 64, "K": 64, "N": 64}).accesses}
    for actual in analyze_any_size(launch, "sm_90", {}, dynamic).accesses:
        if actual.space == "shared":
            assert actual.verdict == exact[actual.text].verdict
            assert actual.per_request == exact[actual.text].per_request
            assert "at any K, M, N" in actual.claim
        else:
            assert re.search(r"worst at [KN] mod 8 = \d\)", actual.claim)


def test_too_many_residues_are_unknown_and_not_slow():
    launch, dynamic = launch_of("""
cugen: 1
kernel: cube
params: {M: {range: [1, 60000]}, N: {range: [1, 9999]}, P: {range: [1, 9999]}}
arrays:
  A: {shape: [M, N, P], dtype: int8}
  C: {shape: [M, N, P], dtype: int8}
compute: C[i, j, k] = A[i, j, k]
schedule: {family: direct}
""")
    actual = analyze_any_size(launch, "sm_20", {}, dynamic).accesses[0]
    assert (actual.verdict, actual.cost, actual.per_request) == ("unknown", 0, None)
    assert "residues of N and P" in actual.reason


def test_what_depends_on_data_stays_unknown():
    launch, dynamic = launch_of("""
cugen: 1
kernel: gather
params: {N: dynamic, D: 64, V: 100}
arrays:
  table: {shape: [V, D], dtype: float32}
  ids: {shape: [N], dtype: int32}
  C: {shape: [N, D], dtype: float32}
compute: C[i, j] = table[ids[i], j]
""")
    verdicts = {
        r.access.array.symbol: r.verdict
        for r in analyze_any_size(launch, "sm_90", {"D": 64, "V": 100}, dynamic).accesses
    }
    assert verdicts == {"ids": "ideal", "table": "unknown", "C": "ideal"}


def test_what_moves_by_whole_periods_needs_no_residue():
    launch, dynamic = launch_of("""
cugen: 1
kernel: full_sum
params: {N: dynamic}
arrays:
  x: {shape: [N], dtype: float32}
  y: {shape: [], dtype: float32}
compute: y = sum(x[i], i)
schedule: {family: reduce, parts: 64}
""")
    wide, tail, *_ = analyze_any_size(launch, "sm_90", {}, dynamic).accesses
    assert wide.claim == "16 sectors, ideal 16 (at any N)"
    assert (tail.verdict, tail.doubt) == ("unknown", "which lanes of a warp run depends on N")  # 31 lanes at most


def test_the_edge_of_a_vectorised_map_is_unknown_as_no_size_has_a_full_warp_there():
    launch, dynamic = launch_of("""
cugen: 1
kernel: doubled
params: {N: dynamic}
arrays:
  x: {shape: [N], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: y[i] = x[i] * 2
""")
    verdicts = [r.verdict for r in analyze_any_size(launch, "sm_90", {}, dynamic).accesses]
    assert verdicts == ["ideal", "ideal", "unknown", "unknown"]


def test_a_comparison_without_a_size_holds_its_lanes_back_beside_one_with_a_size():
    launch, dynamic = launch_of("""
cugen: 1
kernel: skinny
target: sm_80
params: {N: {multiple_of: 8}}
arrays:
  A: {shape: [4, 127], dtype: float32}
  B: {shape: [N, 127], dtype: float32, layout: column}
  y: {shape: [4, N], dtype: float32}
compute: y[m, n] = sum(A[m, k] * B[n, k], k)
""")
    (store,) = (r for r in analyze_any_size(launch, "sm_80", {}, dynamic).accesses if r.access.array.name == "y")
    assert store.claim.startswith("16 sectors, ideal 4")  # of warps 0 to 3; the others would touch 17


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_edge_of_a_transposition_has_no_figure_of_a_full_warp(dtype):
    launch, dynamic = launch_of(f"""
cugen: 1
kernel: transposed
params: {{M: dynamic, N: dynamic}}
arrays:
  A: {{shape: [M, N], dtype: {dtype}}}
  B: {{shape: [N, M], dtype: {dtype}}}
compute: B[j, i] = A[i, j]
""")
    edge = [r for r in analyze_any_size(launch, "sm_90", {}, dynamic).accesses if "edge" in r.text]
    assert edge
    assert {r.verdict for r in edge} == {"unknown"}
