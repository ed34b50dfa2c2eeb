"""Sums, products and extrema by key: accumulators of each thread in shared memory, one for each key."""

from __future__ import annotations

from collections.abc import Iterator

from cugen.families.base import Family, Match, Refusal, Refusals, Request
from cugen.families.grouped.config import TUNABLES, GroupedConfig, choose_config, fits, pays, shared_bytes
from cugen.families.grouped.kernel import GroupedKernel
from cugen.families.grouped.recognition import column_of, match_grouped, widest
from cugen.families.grouped.split import split
from cugen.machine.target import STATIC_SHARED_BYTES
from cugen.pieces.keyed.problem import KeyedProblem
from cugen.pieces.placement import tunables_only
from cugen.spec.expressions import Reduce


def match(request: Request) -> Match | Refusals:
    """The reductions by key of a statement, where they cost less than a comparison with each bin, or are asked for."""
    refused = tunables_only(request, TUNABLES, "takes tunables, not a block or step")
    problem = match_grouped(request)
    if isinstance(problem, Refusal):
        return Refusals((*refused, problem))
    if refused:
        return Refusals(tuple(refused))
    config = choose_config(problem)
    refused += _size_refusals(problem, config)
    return Refusals(tuple(refused)) if refused else Match(lambda: GroupedKernel(problem, config).kernel())


def _size_refusals(problem: KeyedProblem, config: GroupedConfig) -> Iterator[Refusal]:
    request, tunables = problem.request, dict(problem.request.schedule.tunables)
    if not fits(problem, config):
        needed = shared_bytes(problem, config)
        yield Refusal(f"the accumulators take {needed} bytes of shared memory, {STATIC_SHARED_BYTES} are allowed")
    if config.block_threads > request.target.threads_per_block:
        yield Refusal(f"{config.block_threads} threads exceed the limit of a block", "schedule.threads")
    if (width := widest(problem, column_of(problem))) < int(tunables.get("vector", 1)):
        yield Refusal(f"a load has at most {width} elements", "schedule.vector")
    if request.schedule.family is None and not pays(problem, config):
        yield Refusal(f"comparing each element with {problem.bin_count} bins costs no more")


FAMILY = Family(
    "grouped",
    rank=21,
    needs=Reduce,
    doc="sums, products and extrema by key, in accumulators of each thread in shared memory",
    match=match,
    tunables=TUNABLES,
    split=split,
    share_passes=True,
)
