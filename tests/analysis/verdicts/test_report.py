"""What is said of asynchronous copies: their cost from both sides, why, and where it isn't known."""

from __future__ import annotations

from functools import cache

import pytest

from cugen.analysis.totals.sites import sites
from cugen.analysis.verdicts import copy_sources
from cugen.analysis.verdicts.dynamic import analyze_any_size
from cugen.analysis.verdicts.report import analyze_kernel
from cugen.kernel import generate
from cugen.machine.requests import async_copies
from cugen.plan.kernel import Kernel
from cugen.spec.load import load_text


@cache
def product(rows: str = "64", columns: str = "128", k: str = "64") -> Kernel:
    """A multistage pipeline: 4-byte copies from rows of A, 16-byte copies from rows of B."""
    (spec,) = load_text(f"""
cugen: 1
kernel: product
params: {{M: {rows}, K: {k}, N: {columns}}}
arrays:
  A: {{shape: [M, K], dtype: float32}}
  B: {{shape: [K, N], dtype: float32}}
  C: {{shape: [M, N], dtype: float32}}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {{family: gemm, block: {{m: 64, n: 128}}, thread: {{m: 8, n: 8}}, step: {{k: 8}}, stages: 3}}
""")
    (kernel,) = generate(spec, analysis=False).plan.kernels
    return kernel


PARAMS = {"M": 64, "K": 64, "N": 128}
OPEN = "{range: [1, 65536], multiple_of: 4}"


def written(report, tile: str):
    """The copies into a tile: of the ring's first stages, then of the others."""
    actual = [a for a in report.accesses if a.access.kind == "async_copy" and a.access.array.symbol == tile]
    assert len(actual) == 2
    return actual


def test_rows_that_start_in_one_bank_serialise_the_copy_for_every_pitch():
    for actual in written(analyze_kernel(product(), "sm_90", PARAMS), "As"):
        assert actual.claim == "4 wavefronts, ideal 1 (lanes 0 and 8 copy from one bank)"
        assert actual.verdict == "costly"
        assert actual.cost == 4 * actual.ideal
        assert "lanes 0 and 8 copy from addresses 256 bytes apart" in actual.reason
        assert "(4-way conflict): 4 wavefronts, ideal 1" in actual.reason


def test_rows_that_begin_in_different_banks_are_copied_at_once():
    params = {**PARAMS, "K": 72}
    for actual in written(analyze_kernel(product(k="72"), "sm_90", params), "As"):
        assert (actual.verdict, actual.per_request.worst) == ("ideal", 1)


def test_lines_that_are_copied_whole_cost_their_ideal():
    for actual in written(analyze_kernel(product(), "sm_90", PARAMS), "Bs"):
        assert (actual.verdict, actual.per_request.worst) == ("ideal", 4)


def test_copies_of_partial_lines_have_an_unknown_cost():
    for actual in written(analyze_kernel(product(), "sm_90", PARAMS, offsets={"B": 64}), "Bs"):
        assert actual.claim == "unknown: it depends on where its sources are in 128-byte lines"


def test_on_targets_without_measurements_claims_say_that_they_are_assumed():
    for tile in ("As", "Bs"):
        for actual in written(analyze_kernel(product(), "sm_80", PARAMS), tile):
            assert actual.verdict == "assumed"
            assert actual.claim.startswith("assumed: 4 wavefronts, ideal ")
            assert actual.doubt == async_copies.UNMEASURED


def test_rows_of_any_length_are_judged_where_they_begin_in_one_bank():
    report = analyze_any_size(product(k=OPEN), "sm_90", {"M": 64, "N": 128}, {"K": 4})
    for actual in written(report, "As"):
        assert actual.claim == "4 wavefronts, ideal 1 (worst at K mod 32 = 0)"
        assert "where its guards hold" in actual.reason


def test_wide_copies_from_rows_of_any_length_are_unknown():
    report = analyze_any_size(product(columns=OPEN), "sm_90", {"M": 64, "K": 64}, {"N": 4})
    assert {actual.verdict for actual in written(report, "Bs")} == {"unknown"}


@pytest.mark.slow
@pytest.mark.parametrize("k", [60, 64, 68])
def test_totals_of_copies_are_those_of_a_walk(walk, k):
    """With 60 and 68 the ring's last stage is copied in part, and zeros are written for the rest."""
    params = {"M": 64, "K": k, "N": 128}
    walked = walk(product(k=str(k)), params, "sm_90").sums
    for tile in ("As", "Bs"):
        for actual in written(analyze_kernel(product(k=str(k)), "sm_90", params), tile):
            expected = walked[id(actual.access)]
            assert {name: getattr(actual.totals, name) for name in expected} == expected


def test_only_copies_have_sources():
    (site, *_) = (site for site in sites(product(), PARAMS) if site.access.kind == "load")
    with pytest.raises(ValueError, match="isn't written by an asynchronous copy"):
        copy_sources.sources_of(site, (64, 1, 1))
