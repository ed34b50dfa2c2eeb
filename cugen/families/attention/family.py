"""Attention in one launch: softmax of products, times a matrix, on tensor cores."""

from __future__ import annotations

from collections.abc import Iterator

from cugen.families.attention.config import MAX_WIDTH, TUNABLES, AttentionConfig, choices
from cugen.families.attention.cost_model import predict
from cugen.families.attention.kernel import AttentionKernel
from cugen.families.attention.recognition import Attention, recognise
from cugen.families.base import Family, Match, Refusal, Refusals, Request, refuse_tunables
from cugen.machine.features import ASYNC_COPIES, TF32_MMA
from cugen.pieces.placement import useless_placements
from cugen.spec.expressions import Reduce

_KEY_SIZES = ("block", "thread", "step")


def match(request: Request) -> Match | Refusals:
    attention = recognise(request)
    if isinstance(attention, Refusal):
        return Refusals((attention,))
    refused = tuple(_refusals(attention))
    if refused:
        return Refusals(refused)
    configs = _by_time(attention)
    if not configs:
        return Refusals((Refusal("needs more shared memory or registers than a block has"),))
    return _match_of(attention, configs)


def _match_of(attention: Attention, configs: list[AttentionConfig]) -> Match:
    """The kernel of the first config; if a thread has too few registers for it, that of one with fewer sums and
    scores."""
    config = configs[0]
    smaller = [c for c in configs if c.registers < config.registers]
    return Match(
        AttentionKernel(attention, config).kernel, smaller=lambda: _match_of(attention, smaller) if smaller else None
    )


def _refusals(attention: Attention) -> Iterator[Refusal]:
    request, context = attention.request, attention.context
    yield from refuse_tunables(request, TUNABLES)
    yield from useless_placements(request)
    for key in _KEY_SIZES:
        if getattr(request.schedule, key):
            names = ", ".join(tunable.name for tunable in TUNABLES)
            yield Refusal(f"has the tunables {names} in place of {key} sizes", f"schedule.{key}")
    for feature in (ASYNC_COPIES, TF32_MMA):
        if reason := feature.why_not(request.target):
            yield Refusal(reason)
    for index in (attention.depth, attention.column):
        width = context.static_extent(index)
        if width is None or not 0 < width <= MAX_WIDTH:
            yield Refusal(f"takes rows of 1 to {MAX_WIDTH} elements along {index.name}, whose number is fixed")


def _by_time(attention: Attention) -> list[AttentionConfig]:
    """The configs that a block can have, that of the least modelled time first."""
    predicted = ((predict(attention, config), config) for config in choices(attention))
    timed = [(prediction.seconds, config) for prediction, config in predicted if prediction is not None]
    return [config for _, config in sorted(timed, key=lambda pair: pair[0])]


def predicted_seconds(request: Request) -> float | None:
    """The modelled time of the kernel; None where the request isn't taken."""
    attention = recognise(request)
    if isinstance(attention, Refusal) or any(_refusals(attention)):
        return None
    configs = _by_time(attention)
    predicted = predict(attention, configs[0]) if configs else None
    return None if predicted is None else predicted.seconds


def keeps_nested(request: Request) -> bool:
    """Whether it takes the statement with the softmax and the products in place."""
    return isinstance(match(request), Match)


FAMILY = Family(
    "attention",
    rank=50,
    needs=Reduce,
    doc="attention: softmax of products, times a matrix, on tensor cores; scores stay in registers",
    match=match,
    tunables=TUNABLES,
    keeps_nested=keeps_nested,
    predicted_seconds=predicted_seconds,
)
