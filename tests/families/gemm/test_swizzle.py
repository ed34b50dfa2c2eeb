"""Swizzled tiles of a GEMM: the xor in place of a pad, bank conflicts, what it combines with, results."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from cugen.kernel_report import analyze
from cugen.plan.nodes import Load
from cugen.plan.symbols import BitXor, Mod, integer, symbol
from tests.families.gemm.test_gemm import SMALL, candidates_of, gemm, nodes, request_of, tiles

WIDE = "family: gemm, block: {m: 64, n: 128}, thread: {m: 8, n: 8}, step: {k: 8}"
SWIZZLE = ", memory: {space: shared, stages: %d, swizzle: xor}"
THREE = {"a": SWIZZLE % 3, "b": SWIZZLE % 3}
SINGLE = {"a": SWIZZLE % 1, "b": SWIZZLE % 1}


def wavefronts(kernel) -> dict[tuple[str, str], set[tuple[int, int, str]]]:
    """(wavefronts, ideal ones, verdict) of the accesses to each tile."""
    (launch,) = analyze(kernel).kernels
    found: dict[tuple[str, str], set[tuple[int, int, str]]] = {}
    for access in launch.accesses:
        if access.access.array.space == "shared":
            key = access.access.array.symbol, access.access.kind
            request = access.per_request
            found.setdefault(key, set()).add((request.worst, request.worst_ideal, access.verdict))
    return found


def test_vectors_of_a_row_are_permuted_by_k_and_rows_have_no_pad(planned):
    kernel = planned(gemm(**THREE))
    assert tiles(kernel) == {"As": (3, 8, 32), "Bs": (3, 8, 64)}
    columns = {load.access.physical_subscripts()[-1] for load in nodes(kernel, Load)}
    mask = 4 * Mod(symbol("k_"), integer(8))
    a, b = symbol("thread_m"), symbol("thread_n") + 32 * symbol("u")
    assert columns == {a, b, BitXor(a, mask), BitXor(b, mask)}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("transposed", ["", "ab"])
def test_a_single_stage_has_no_bank_conflicts(made, dtype, transposed):
    cores = ", cores: cuda" if dtype == "float64" else ""
    kernel = made(gemm(128, 64, 128, dtype=dtype, transposed=transposed, schedule=WIDE + cores, **SINGLE))
    for (_, _), requests in wavefronts(kernel).items():
        assert all(worst == ideal for worst, ideal, _ in requests)
        assert {verdict for _, _, verdict in requests} == {"ideal"}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("transposed", ["", "b", "ab"])
def test_requests_are_those_of_a_padded_tile(made, transposed):
    padded = wavefronts(made(gemm(128, 64, 128, transposed=transposed, schedule=WIDE + ", stages: 3")))
    assert wavefronts(made(gemm(128, 64, 128, transposed=transposed, schedule=WIDE, **THREE))) == padded


def test_without_a_swizzle_or_a_pad_the_transposing_copies_would_conflict(made):
    pad = ", memory: {space: shared, pad: %d}"
    conflicts = [
        max(worst for worst, _, _ in wavefronts(made(gemm(128, 64, 128, a=a, schedule=WIDE)))["As", "store"])
        for a in (pad % 64, ", memory: {space: shared, swizzle: xor}")
    ]
    assert conflicts == [8, 1]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("transposed", ["", "a", "b", "ab"])
def test_fragments_of_tensor_cores_have_no_bank_conflicts(made, transposed):
    kernel = made(gemm(128, 64, 128, dtype="float64", transposed=transposed, schedule="cores: tensor", **THREE))
    loads = [requests for (_, kind), requests in wavefronts(kernel).items() if kind == "load"]
    assert all(worst == ideal for requests in loads for worst, ideal, _ in requests)


@pytest.mark.parametrize(
    ("schedule", "dtype", "why"),
    [
        (SMALL + ", addressing: pointer", "float32", "no fixed offsets from a pointer"),
        (
            "family: gemm, block: {m: 20, n: 64}, thread: {m: 10, n: 4}, lanes: 2",
            "float16",
            "permutes 8 elements at a time, and a tile row has 20",
        ),
        (
            "cores: tensor, block: {m: 32, n: 32}, thread: {m: 4, n: 4}, step: {k: 8}",
            "float64",
            "don't swizzle K-major tiles with a k-tile of 8",
        ),
    ],
)
def test_what_a_swizzle_does_not_combine_with_is_refused(reasons, schedule, dtype, why):
    text = gemm(65, 64, 72, dtype=dtype, schedule=schedule, **THREE)
    assert any(why in refusal.reason for refusal in reasons("gemm", text))


def test_a_row_of_one_unit_stays_as_it_is(planned):
    schedule = "family: gemm, cores: cuda, block: {m: 16, n: 64}, thread: {m: 4, n: 4}, step: {k: 16}"
    kernel = planned(gemm(65, 64, 72, dtype="int8", schedule=schedule, **THREE))
    assert {a.symbol: a.swizzle for load in nodes(kernel, Load) if (a := load.access.array).space == "shared"} == {
        "As": 0,
        "Bs": 4,
    }


def test_candidates_address_swizzled_tiles_by_subscripts():
    schedules = candidates_of(request_of(gemm(1000, 64, 777, schedule="", **THREE)))
    assert {dict(schedule.tunables)["addressing"] for schedule in schedules} == {"indexed"}


# Results


@pytest.mark.sampled(4)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (33, 17, 65)])
@pytest.mark.parametrize("memory", [SINGLE, THREE])
def test_edges_are_right(prove, sizes, memory):
    m, k, n = sizes
    prove(gemm(m, k, n, **memory), sanitize=True)


@pytest.mark.slow
def test_a_tile_without_a_power_of_two_is_right(prove):
    prove(
        gemm(81, 40, 79, schedule="family: gemm, block: {m: 80, n: 80}, thread: {m: 10, n: 10}", **THREE), sanitize=True
    )


@pytest.mark.slow
def test_partial_sums_in_the_memory_of_swizzled_tiles_are_free_of_races(prove):
    cluster = SMALL + ", sliced_k: 2, split_k: 2, reduction: cluster"
    prove("target: sm_90\n" + gemm(65, 64, 71, schedule=cluster, **THREE), races=True)


@pytest.mark.slow
def test_it_compiles(compiled):
    compiled(gemm(**THREE))
    compiled(gemm(transposed="ab", **SINGLE))


@pytest.mark.slow
@settings(deadline=None, max_examples=15, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_drawn_kernels_are_right(prove, data):
    m, k, n = (data.draw(st.integers(1, 140), label=name) for name in "mkn")
    more = data.draw(st.sampled_from(["", ", sliced_k: 2", ", order: rows", ", lanes: 8", ", prefetch: upfront"]))
    transposed = data.draw(st.sampled_from(["", "a", "b", "ab"]))
    dtype = data.draw(st.sampled_from(["float32", "float64", "int32", "float16", "int8"]))
    cores = ", cores: cuda" if dtype == "float64" else ""
    memory = data.draw(st.sampled_from([SINGLE, THREE, {"a": SWIZZLE % 2}, {"b": SWIZZLE % 1}]))
    prove(gemm(m, k, n, dtype=dtype, transposed=transposed, schedule=SMALL + more + cores, **memory))
