"""What may be tried: the schedules that leave what the user fixed as it is, the best guesses first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice, product

from cugen.families.base import Family
from cugen.plan.context import make_context
from cugen.plan.request import Match, Request
from cugen.plan.schedules import schedule_of
from cugen.rewrite.hoist_reductions import hoisted
from cugen.schedule.lock import Schedules, completed, filled
from cugen.schedule.planner import answers, make_plan, requests
from cugen.schedule.runs import group
from cugen.spec.model import Schedule, Spec

MAX_CANDIDATES = 20_000  # candidates of a spec
_MOST_OF_A_FAMILY = 2_000
_FEW = 16  # of a family's own list that are tried before other families' further guesses
Feature = tuple[str, int | str | bool]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way of computing a spec: schedules by output; none where the generator chooses. Number 0 is its own choice."""

    number: int
    schedules: Schedules = ()

    @property
    def features(self) -> tuple[Feature, ...]:
        """All that was chosen, each by a name of its own."""
        features: list[Feature] = []
        for output, schedule in self.schedules:
            features.append((f"{output}.family", schedule.family or ""))
            for key in ("block", "thread", "step"):
                features += [(f"{output}.{key}.{name}", size) for name, size in getattr(schedule, key)]
            features += [(f"{output}.{name}", value) for name, value in schedule.tunables]
        return tuple(features)


@dataclass(frozen=True, slots=True)
class _Slot:
    """A launch, known by the first array that it writes, and the schedules for it by how far they are from the best
    guess."""

    output: str
    levels: tuple[tuple[Schedule, ...], ...]

    @property
    def near(self) -> tuple[Schedule, ...]:
        """Those that are nearest to the best guess."""
        return tuple(schedule for level in self.levels[:2] for schedule in level)


def candidates(spec: Spec) -> tuple[Candidate, ...]:
    """The generator's own choice, then others: first those that change one launch, then those that change several."""
    slots = _slots(spec)
    combinations = dict.fromkeys(islice(_combined(slots), MAX_CANDIDATES))
    combinations.pop((), None)
    return (Candidate(0), *(Candidate(number, schedules) for number, schedules in enumerate(combinations, 1)))


def generators_choice(spec: Spec) -> Schedules:
    """What candidate 0 stands for, in words: of each launch the best guess of the family that the generator takes. None
    where it makes several launches that no schedule asks for."""
    chosen = tuple((slot.output, slot.levels[0][0]) for slot in _slots(spec) if slot.levels)
    tuned = replace(spec, schedules=filled(spec, chosen))
    return chosen if _families(tuned) == _families(spec) else ()


def _families(spec: Spec) -> tuple[str, ...]:
    return tuple(kernel.family for kernel in make_plan(spec).kernels)


def _combined(slots: Sequence[_Slot]) -> Iterator[Schedules]:
    """One launch changed, the least first; then two of them, each a little."""
    for level in range(max((len(slot.levels) for slot in slots), default=0)):
        for slot in slots:
            for schedule in slot.levels[level] if level < len(slot.levels) else ():
                yield ((slot.output, schedule),)
    for first, second in combinations(slots, 2):
        for first_schedule, second_schedule in product(first.near, second.near):
            yield (first.output, first_schedule), (second.output, second_schedule)


def _slots(spec: Spec) -> tuple[_Slot, ...]:
    """One for each launch before any is split. A statement from which the generator takes reductions apart stays
    without a schedule, or it wouldn't."""
    changed = hoisted(spec)
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
        for position, schedule in enumerate(islice(match.candidates(), _MOST_OF_A_FAMILY)):
            yield 0 if position == 0 else 1 if position < _FEW else 2, schedule
        return
    yield from islice(_round_the_default(family, request), _MOST_OF_A_FAMILY)


def _round_the_default(family: Family, request: Request) -> Iterator[tuple[int, Schedule]]:
    """All products of the tunables' values, those with the fewest that aren't left to the family first."""
    fixed = dict(request.schedule.tunables)
    free = [tunable for tunable in family.tunables if tunable.name not in fixed]
    for count in range(len(free) + 1):
        for chosen in combinations(free, count):
            names = [tunable.name for tunable in chosen]
            for values in product(*(tunable.values for tunable in chosen)):
                yield count, Schedule(family.name, tunables=tuple(zip(names, values, strict=True)))
