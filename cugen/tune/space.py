"""Search space: the schedules that keep the user's choices, in the order of the families' models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations, islice, product

from cugen.families.base import Family
from cugen.plan.context import make_context
from cugen.plan.request import Match, Request
from cugen.rewrite.schedules import schedule_of
from cugen.schedule.lock import Schedules, completed, filled
from cugen.schedule.planner import answers, make_plan, requests
from cugen.schedule.runs import group
from cugen.schedule.splitting.hoisting import with_hoisted_reductions
from cugen.spec.model import Schedule, Spec

MAX_CANDIDATES = 20_000  # candidates per spec (heuristic: bounds the time to list them)
_MAX_SCHEDULES_PER_FAMILY = 2_000  # schedules per launch and family (heuristic)
_TOP_SCHEDULES_PER_FAMILY = 16  # schedules of a family tried before the remaining ones of all families (heuristic)
Feature = tuple[str, int | str | bool]


@dataclass(frozen=True, slots=True)
class Candidate:
    """Candidate schedules of a spec, by output; none if the generator chooses. Number 0 is the generator's choice."""

    number: int
    schedules: Schedules = ()

    @property
    def features(self) -> tuple[Feature, ...]:
        """All choices of the schedules, with unique names."""
        features: list[Feature] = []
        for output, schedule in self.schedules:
            features.append((f"{output}.family", schedule.family or ""))
            for key in ("block", "thread", "step"):
                features += [(f"{output}.{key}.{name}", size) for name, size in getattr(schedule, key)]
            features += [(f"{output}.{name}", value) for name, value in schedule.tunables]
        return tuple(features)


@dataclass(frozen=True, slots=True)
class _Slot:
    """Schedules of one launch, by their distance from the best guess. The first array that it writes identifies the
    launch."""

    output: str
    levels: tuple[tuple[Schedule, ...], ...]

    @property
    def near(self) -> tuple[Schedule, ...]:
        """The schedules of the first two levels."""
        return tuple(schedule for level in self.levels[:2] for schedule in level)


def candidates(spec: Spec) -> tuple[Candidate, ...]:
    """The generator's choice, then candidates that change one launch, then those that change two."""
    slots = _slots(spec)
    combinations = dict.fromkeys(islice(_combined(slots), MAX_CANDIDATES))
    combinations.pop((), None)
    return (Candidate(0), *(Candidate(number, schedules) for number, schedules in enumerate(combinations, 1)))


def generators_choice(spec: Spec) -> Schedules:
    """Explicit schedules of candidate 0: for each launch, the first schedule of the selected family. Empty if the
    generator makes launches that no schedule can request."""
    chosen = tuple((slot.output, slot.levels[0][0]) for slot in _slots(spec) if slot.levels)
    tuned = replace(spec, schedules=filled(spec, chosen))
    return chosen if _families(tuned) == _families(spec) else ()


def _families(spec: Spec) -> tuple[str, ...]:
    return tuple(kernel.family for kernel in make_plan(spec).kernels)


def _combined(slots: Sequence[_Slot]) -> Iterator[Schedules]:
    """Changes of one launch, by level; then changes of two launches, from their first two levels."""
    for level in range(max((len(slot.levels) for slot in slots), default=0)):
        for slot in slots:
            for schedule in slot.levels[level] if level < len(slot.levels) else ():
                yield ((slot.output, schedule),)
    for first, second in combinations(slots, 2):
        for first_schedule, second_schedule in product(first.near, second.near):
            yield (first.output, first_schedule), (second.output, second_schedule)


@lru_cache(maxsize=1)
def _slots(spec: Spec) -> tuple[_Slot, ...]:
    """One slot for each launch before split-K. Statements with hoisted reductions have none: a schedule would prevent
    the hoisting."""
    changed = with_hoisted_reductions(spec)
    written = {statement.target: statement.value for statement in spec.statements}
    context = make_context(changed)
    slots = []
    for request in requests(context, group(context)):
        statements = request.group.statements
        if any(s.target in written and s.value != written[s.target] for s in statements):
            continue
        base = schedule_of(changed, statements)
        slots.append(_Slot(statements[0].target, _levels(request, base)))
    return tuple(slots)


def _levels(request: Request, base: Schedule) -> tuple[tuple[Schedule, ...], ...]:
    levels: dict[int, dict[Schedule, None]] = {}
    for family, answer in answers(request):
        if isinstance(answer, Match) and base.family in (None, family.name):
            for level, schedule in _of_family(family, answer, request):
                whole = replace(completed(base, replace(schedule, family=family.name)), spans=())
                levels.setdefault(level, {})[whole] = None
    return tuple(tuple(levels[level]) for level in sorted(levels))


def _of_family(family: Family, match: Match, request: Request) -> Iterator[tuple[int, Schedule]]:
    if match.candidates is not None:
        for position, schedule in enumerate(islice(match.candidates(), _MAX_SCHEDULES_PER_FAMILY)):
            yield 0 if position == 0 else 1 if position < _TOP_SCHEDULES_PER_FAMILY else 2, schedule
        return
    yield from islice(_around_the_default(family, request), _MAX_SCHEDULES_PER_FAMILY)


def _around_the_default(family: Family, request: Request) -> Iterator[tuple[int, Schedule]]:
    """All combinations of the tunables' values, by the number of tunables that are set."""
    fixed = dict(request.schedule.tunables)
    free = [tunable for tunable in family.tunables if tunable.name not in fixed]
    for count in range(len(free) + 1):
        for chosen in combinations(free, count):
            names = [tunable.name for tunable in chosen]
            for values in product(*(tunable.values for tunable in chosen)):
                yield count, Schedule(family.name, tunables=tuple(zip(names, values, strict=True)))
