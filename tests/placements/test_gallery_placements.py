"""Every input of the gallery in every memory: as good a plan as without, or a refusal for a reason that the table has.

`python -m tests.placements` rewrites the table after a change that means to alter it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import pytest

from cugen.kernel import generate
from cugen.kernel_price import price_of
from cugen.runtime.cpu.device import CpuDevice
from cugen.runtime.verify import verify

from . import table
from .outcomes import COSTLY, HONOURED, KINDS, UNEXPLAINED, Requested, gallery, outcome, placed, requested, sizes

# The most of all requests that may be refused, cost more than MAX_RATIO, or be refused for no reason of these kinds.
# Lower them with every placement that a family learns. The kernels of the family wgmma have a bound of their own:
# TMA copies operands from global memory to swizzled tiles, and no other memory or layout is possible.
MAX_REFUSED, MAX_REFUSED_BY_WGMMA = 0.136, 0.611
MAX_COSTLY = 0.035
MAX_UNEXPLAINED = 0

REQUESTS = [request for kernel in gallery() for request in requested(kernel)]


def share(*kinds: str, of: Sequence[Requested] = REQUESTS) -> float:
    outcomes = table.read()
    counts = Counter(outcomes[request].kind for request in of if request in outcomes)
    return sum(counts[kind] for kind in kinds) / len(of)


@pytest.mark.sampled(128)
@pytest.mark.parametrize("kernel", gallery())
def test_each_request_gives_what_the_table_has(kernel: str) -> None:
    expected = {request: found for request, found in table.read().items() if request.kernel == kernel}
    outcomes = {request: outcome(request) for request in requested(kernel)}
    assert {request: found for request, found in outcomes.items() if found.kind != HONOURED} == expected


def test_the_table_has_requests_of_the_gallery_only() -> None:
    assert set(table.read()) <= set(REQUESTS)
    assert {found.kind for found in table.read().values()} <= {COSTLY, UNEXPLAINED, *KINDS}


def test_few_requests_are_refused() -> None:
    by_wgmma = [request for request in REQUESTS if "_wgmma" in request.kernel]
    others = [request for request in REQUESTS if request not in by_wgmma]
    assert share(UNEXPLAINED, *KINDS, of=others) <= MAX_REFUSED
    assert share(UNEXPLAINED, *KINDS, of=by_wgmma) <= MAX_REFUSED_BY_WGMMA
    assert share(UNEXPLAINED) <= MAX_UNEXPLAINED


def test_few_requests_cost_more_than_the_plan_without_them() -> None:
    assert share(COSTLY) <= MAX_COSTLY


def test_a_refusal_for_capacity_has_its_figure() -> None:
    figures = [found.figure for found in table.read().values() if found.kind == "capacity"]
    assert figures
    unknown_size = re.compile(r"must be (fixed|known)")
    assert [figure for figure in figures if not re.search(r"\d", figure) and not unknown_size.search(figure)] == []


@pytest.mark.slow
@pytest.mark.parametrize("kernel", gallery())
def test_what_is_planned_is_right_and_clean_under_the_sanitizers(kernel: str) -> None:
    refused = {request for request, found in table.read().items() if not found.is_planned}
    failures = {}
    for request in requested(kernel):
        if request not in refused:
            spec = placed(request)
            made = generate(spec, remarks="none")
            device = CpuDevice(sanitize=True, shuffle=1, limit_seconds=900)
            run = verify(spec, made.source, made.manifest, device, params=sizes(spec))
            if not run.verification.passed:
                failures[request] = run.verification.messages
    assert failures == {}


@pytest.mark.whole
@pytest.mark.slow
@pytest.mark.parametrize(
    "request_", [r for r, found in table.read().items() if found.kind == COSTLY and r.placement != "pitched"], ids=str
)
def test_what_costs_more_time_or_traffic_has_a_price(request_: table.Requested) -> None:
    assert price_of(generate(placed(request_)), sizes(placed(request_))) is not None
