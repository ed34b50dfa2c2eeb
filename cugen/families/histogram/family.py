"""Counts and integer sums by key: each block adds up its elements by atomics on counters in shared memory."""

from __future__ import annotations

from collections.abc import Iterator

from cugen.families.base import Family, Match, Refusal, Refusals, Request
from cugen.families.histogram.config import (
    TUNABLES,
    HistogramConfig,
    block_count,
    choose_config,
    counter_bytes,
    fits,
    widest,
)
from cugen.families.histogram.contention import pays
from cugen.families.histogram.kernel import HistogramKernel
from cugen.families.histogram.recognition import match_histogram
from cugen.families.histogram.split import split
from cugen.machine.target import STATIC_SHARED_BYTES
from cugen.pieces.keyed.problem import KeyedProblem
from cugen.pieces.placement import tunables_only
from cugen.spec.expressions import Reduce


def match(request: Request) -> Match | Refusals:
    """The histogram of a statement, where atomics cost less than a comparison with each bin, or it is asked for."""
    refused = tunables_only(request, TUNABLES, "takes tunables, not a block or step")
    problem = match_histogram(request)
    if isinstance(problem, Refusal):
        return Refusals((*refused, problem))
    if refused:
        return Refusals(tuple(refused))
    config = choose_config(problem)
    refused += _size_refusals(problem, config)
    return Refusals(tuple(refused)) if refused else Match(lambda: HistogramKernel(problem, config).kernel())


def _size_refusals(problem: KeyedProblem, config: HistogramConfig) -> Iterator[Refusal]:
    request, tunables = problem.request, dict(problem.request.schedule.tunables)
    if not fits(problem, config):
        needed = counter_bytes(problem, config)
        yield Refusal(f"the counters take {needed} bytes of shared memory, {STATIC_SHARED_BYTES} are allowed")
    if config.threads * config.rows > request.target.threads_per_block:
        yield Refusal(f"{config.threads * config.rows} threads exceed the limit of a block", "schedule.rows")
    if int(tunables.get("vector", 1)) > widest(problem):
        yield Refusal(f"a load has at most {widest(problem)} elements", "schedule.vector")
    if request.schedule.family is None and not pays(problem, config.replicas, block_count(problem, config)):
        yield Refusal(f"comparing each element with {problem.bin_count} bins costs no more than atomics")


FAMILY = Family(
    "histogram",
    rank=22,
    needs=Reduce,
    doc="counts and integer sums by key, added up by atomics on counters in shared memory",
    match=match,
    tunables=TUNABLES,
    split=split,
    share_passes=True,
)
