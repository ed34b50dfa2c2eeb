"""Prices what a spec requests: placements, families and sizes, and falls to the fallback family.

A plan is compared with that of the same spec without its requests, by the model of `cugen.analysis.launches.price`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from cugen.analysis.launches.price import Price, plan_prices, total
from cugen.analysis.launches.sentences import time_text
from cugen.analysis.totals.budget import Unknown
from cugen.families.registry import families
from cugen.kernel import Kernel
from cugen.machine import Device
from cugen.plan.kernel import Plan
from cugen.plan.request import Match, Refusal, Request
from cugen.schedule.planner import make_plan, requests
from cugen.schedule.runs import group
from cugen.schedule.splitting.context import plan_context
from cugen.spec.diagnostics import Diagnostic, SpecError
from cugen.spec.expressions import NOWHERE, Span
from cugen.spec.model import Memory, Schedule, Spec

MAX_RATIO = 1.2  # to the time or the traffic of the best plan; beyond it is reported
_SIZES = ("block", "thread", "step")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class RequestedKey:
    """A key of the spec that restricts the plan, as written in `text`; `removed` gives the spec without it."""

    key: str
    text: str
    span: Span
    removed: Callable[[Spec], Spec]


@dataclass(frozen=True, slots=True)
class Alternative:
    """The plan without some of the keys that the spec has: the families of its launches, and its price."""

    without: tuple[RequestedKey, ...]
    families: tuple[str, ...]
    price: Price


@dataclass(frozen=True, slots=True)
class PlanPrice:
    """Price of the launches of `families`: of all, or of those of the fallback family.

    price: None if the analysis can't count it, for the reason in `unknown`. alternative: the plan without some keys, if
    this one takes more than MAX_RATIO of its time or traffic. is_fallback: whether the fallback family was chosen
    although more than MAX_RATIO of the bound, or an unknown price. because: why a better family refuses.
    """

    families: tuple[str, ...]
    price: Price | None
    unknown: str = ""
    alternative: Alternative | None = None
    is_fallback: bool = False
    because: str = ""

    @property
    def is_costly(self) -> bool:
        return self.alternative is not None or self.is_fallback

    @property
    def text(self) -> str:
        """The price in one line."""
        because = f", because {self.because}" if self.because else ""
        if self.price is None:
            return f"{_listed(self.families)}: unknown cost: {self.unknown}{because}"
        bounds = f"{time_text(self.price.bound_seconds)} of {self.price.bound_limiter}, {_bytes(self.price.compulsory)}"
        text = f"{_listed(self.families)}: {_cost(self.price)} (bounds: {bounds}){because}"
        if self.alternative is None:
            return text
        keys = " and ".join(f"`{key.text}`" for key in self.alternative.without)
        return f"{text}; without {keys}, {_listed(self.alternative.families)}: {_cost(self.alternative.price)}"


def price_of(kernel: Kernel, params: Mapping[str, int] | None = None, device: Device | None = None) -> PlanPrice | None:
    """The price of a kernel's plan; None if its spec requests nothing, and no launch has the fallback family.

    params: values of dynamic params, by default those of the spec. device: default as `plan_prices`.
    """
    spec, plan = kernel.spec, kernel.plan
    keys = requested_keys(spec)
    fallback = families()[-1].name
    forced = any(schedule.family == fallback for _, schedule in spec.schedules)
    falls = [] if forced else [number for number, made in enumerate(plan.kernels) if made.family == fallback]
    if not keys and not falls:
        return None
    values = {p.name: p.default for p in spec.params if p.default is not None} | dict(params or {})
    names = _families(plan)
    is_static = all(p.value is not None for p in spec.params)
    try:
        prices = plan_prices(plan, values, device, kernel.reports if is_static else ())
    except Unknown as why:
        if not falls:
            return PlanPrice(names, None, str(why))
        return PlanPrice((fallback,), None, str(why), is_fallback=True, because=_reason(spec, plan, ()))
    price = total(prices)
    if keys and (better := _alternative(spec, price, keys, values, device)) is not None:
        return PlanPrice(names, price, alternative=better, because=_reason(spec, plan, better.families))
    if falls:
        fallen = total([prices[number] for number in falls])
        if fallen.exceeds(fallen.bound, MAX_RATIO):
            return PlanPrice((fallback,), fallen, is_fallback=True, because=_reason(spec, plan, ()))
    return PlanPrice(names, price)


def price_warnings(kernel: Kernel) -> tuple[Diagnostic, ...]:
    """A warning if the plan costs more than it needs to."""
    priced = price_of(kernel)
    if priced is None or not priced.is_costly:
        return ()
    spec = kernel.spec
    keys = priced.alternative.without if priced.alternative else ()
    span = keys[0].span if keys and keys[0].span.line else spec.statements[0].span
    lines = spec.text.splitlines()
    line = lines[span.line - 1] if 0 < span.line <= len(lines) else ""
    key = keys[0].key if keys else ""
    return (Diagnostic("CG2108", priced.text, spec.path, span, key, source_line=line, severity="warning"),)


def requested_keys(spec: Spec) -> tuple[RequestedKey, ...]:
    """The placements of inputs and temporaries, and the keys of schedules; not those of a lock file, which were
    measured, nor of filtered textures, which no other memory can replace."""
    roles = ("input", "baked", "temporary")
    placed = [a for a in spec.arrays if a.memory.space is not None and a.role in roles and not a.is_filtered]
    keys = [
        RequestedKey(
            f"arrays.{a.name}.memory", f"{a.name}: {a.memory.space}", a.memory.span, partial(_unplaced, a.name)
        )
        for a in placed
    ]
    for output, schedule in spec.schedules if spec.tuned is None else ():
        if schedule.family is not None:
            removed = partial(_unscheduled, output, ("family",))
            text = f"family: {schedule.family}"
            keys.append(RequestedKey("schedule.family", text, schedule.span_of("family"), removed))
        names = [name for name in _SIZES if getattr(schedule, name)] + [name for name, _ in schedule.tunables]
        if names:
            span = next((span for key, span in schedule.spans if key.partition(".")[0] == names[0]), NOWHERE)
            removed = partial(_unscheduled, output, (*_SIZES, "tunables"))
            keys.append(RequestedKey(f"schedule.{names[0]}", ", ".join(names), span, removed))
    return tuple(keys)


def _unplaced(array: str, spec: Spec) -> Spec:
    arrays = (replace(a, memory=Memory()) if a.name == array else a for a in spec.arrays)
    return replace(spec, arrays=tuple(arrays))


def _unscheduled(output: str, names: tuple[str, ...], spec: Spec) -> Spec:
    cleared = {name: getattr(Schedule(), name) for name in names}
    schedules = tuple((name, replace(made, **cleared) if name == output else made) for name, made in spec.schedules)
    return replace(spec, schedules=schedules)


def _alternative(
    spec: Spec, price: Price, keys: tuple[RequestedKey, ...], params: Mapping[str, int], device: Device | None
) -> Alternative | None:
    """The plan without all keys, if the price exceeds its price; or one as good that leaves more of the keys: without
    the schedule or without the placements, or one of these."""

    best = _without(spec, keys, params, device)
    if best is None or not price.exceeds(best.price, MAX_RATIO):
        return None

    def suffices(keys: tuple[RequestedKey, ...]) -> Alternative | None:
        found = _without(spec, keys, params, device)
        return None if found is None or found.price.exceeds(best.price, MAX_RATIO) else found

    placements = tuple(key for key in keys if key.key.startswith("arrays."))
    for part in (placements, tuple(key for key in keys if key not in placements)):
        found = best if part == keys else suffices(part) if part else None
        if found is not None:
            single = next(filter(None, (suffices((key,)) for key in part)), None) if len(part) > 1 else None
            return single or found
    return best


def _without(
    spec: Spec, keys: tuple[RequestedKey, ...], params: Mapping[str, int], device: Device | None
) -> Alternative | None:
    """The plan of the spec without some keys; None if there is none, or its price is unknown."""
    for key in keys:
        spec = key.removed(spec)
    try:
        plan = make_plan(spec)
        return Alternative(keys, _families(plan), total(plan_prices(plan, params, device)))
    except (SpecError, Unknown):
        return None


def _families(plan: Plan) -> tuple[str, ...]:
    return tuple(dict.fromkeys(launch.family for launch in plan.kernels))


def _reason(spec: Spec, plan: Plan, better: tuple[str, ...]) -> str:
    """Why the first of the better families refuses the statements of the plan's launches; without such, why one does
    that refuses what the spec says of an array: the first by rank."""
    context = plan_context(spec)
    chosen = {launch.name: launch.family for launch in plan.kernels}
    for request in requests(context, group(context)):
        used = chosen[request.name]
        if request.schedule.family == used:  # requested, or that of a step
            continue
        for family in families():
            if family.name == used or (better and family.name not in better) or not family.may_match(request):
                continue
            answer = family.answer(request)
            if isinstance(answer, Match):
                if used == families()[-1].name:
                    return f"{family.name}: needs more registers than a thread may have"
                continue
            if (reason := _relevant(answer.reasons, request, is_better=bool(better))) is not None:
                return f"{family.name}: {reason}"
    return ""


def _relevant(refusals: Sequence[Refusal], request: Request, *, is_better: bool) -> str | None:
    """The first refusal for a key of the spec, else for an array by its name; of a family that is better without the
    keys, any."""
    for refusal in refusals:
        if refusal.key:
            return refusal.reason
    names = {read.array for read in request.reads()}
    for refusal in refusals:
        if is_better or names & set(_WORD.findall(refusal.reason)):
            return refusal.reason
    return None


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _cost(price: Price) -> str:
    about = "about" if price.is_complete else "at least"
    return f"{about} {time_text(price.seconds)}, {_bytes(price.moved)} moved"


def _bytes(count: int) -> str:
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count} bytes"
