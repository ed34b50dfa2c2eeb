"""Correlations: sums over long windows that adjacent outputs share, by register windows that slide along tiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cugen.families.base import Family, Match, Refusal, Refusals, Request, refuse_tunables
from cugen.families.staged.correlation.config import CorrelationConfig, choose_configs
from cugen.families.staged.correlation.kernel import CorrelationBuilder
from cugen.families.staged.correlation.recognition import Correlation, recognise, unasked_refusals
from cugen.families.staged.correlation.split import NAME, split
from cugen.pieces.grid import fastest_first
from cugen.plan.traversal.ragged import has_ragged_range
from cugen.rewrite.align_reductions import with_common_indices
from cugen.spec.expressions import Reduce, Scan, walk


def match(request: Request) -> Match | Refusals:
    """The windows with the config of their tiles, or why there are none or the schedule can't be honoured."""
    if reasons := tuple(_form_refusals(request)):
        return Refusals(reasons)
    aligned = request.with_statements(with_common_indices(request.group.statements, request.context))
    order = fastest_first(aligned)
    correlation = recognise(aligned, order)
    if isinstance(correlation, Refusal):
        return Refusals((correlation,))
    reasons = tuple(_register_refusals(aligned, correlation))
    if not reasons and request.schedule.family != NAME:
        reasons = tuple(unasked_refusals(aligned, correlation))
    configs = Refusal("") if reasons else choose_configs(aligned, correlation, order)
    if isinstance(configs, Refusal):
        return Refusals(reasons or (configs,))
    return _match(aligned, correlation, configs)


def _match(request: Request, correlation: Correlation, configs: Sequence[CorrelationConfig]) -> Match:
    def smaller() -> Match | None:
        return _match(request, correlation, configs[1:]) if len(configs) > 1 else None

    return Match(lambda: CorrelationBuilder(request, correlation, configs[0]).kernel(), smaller=smaller)


def _form_refusals(request: Request) -> Iterator[Refusal]:
    if Reduce not in request.node_kinds():
        yield Refusal("has no reductions")
    yield from refuse_tunables(request, ())
    for array in request.touched():
        key = f"arrays.{array.name}.memory"
        if array.memory.space == "shared":
            if array.role not in ("input", "baked"):
                yield Refusal(f"stages inputs only, and statements write {array.name}", key)
            if array.memory.stages > 1:
                yield Refusal(f"fills the tile of {array.name} once: there is nothing to pipeline", key)
            if array.memory.dynamic:
                yield Refusal(f"has the tile of {array.name} in static shared memory", key)
    for key in ("block", "thread", "step"):
        if getattr(request.schedule, key):
            yield Refusal(f"takes no {key} sizes", f"schedule.{key}")
    if any(not statement.indices for statement in request.group.statements):
        yield Refusal("takes arrays, not single elements")
    if Scan in request.node_kinds():
        yield Refusal("takes no scans")
    nodes = (node for statement in request.group.statements for node in walk(statement.value))
    if any(isinstance(node, Reduce) and has_ragged_range(node) for node in nodes):
        yield Refusal("reads windows of the same size; ranges that end at elements are reduced by `reduce`")


def _register_refusals(request: Request, correlation: Correlation) -> Iterator[Refusal]:
    """Inputs in registers must be those whose windows threads hold there."""
    windowed = {read.read.array for read in correlation.reads}
    for array in request.touched():
        if array.memory.space == "register" and array.role != "temporary" and array.name not in windowed:
            reason = f"holds windows of {' and '.join(sorted(windowed))} in registers, and has no use for {array.name}"
            yield Refusal(f"{reason} there", f"arrays.{array.name}.memory")


FAMILY = Family(
    NAME,
    rank=27,
    doc="sums over long windows of adjacent outputs: register windows that slide along tiles in shared memory",
    match=match,
    split=split,
)
