"""Two pages compared, access by access: what costs less and what costs more than in a baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from cugen.analysis.launches.ceilings import Ceiling
from cugen.analysis.launches.sentences import time_text
from cugen.report.page import Entry, Launch, Page

BETTER, WORSE, SAME, ADDED, REMOVED, UNKNOWN = "better", "worse", "same", "added", "removed", "unknown"
_UNITS = {
    "wavefronts": "wavefronts of shared memory",
    "sectors": "sectors of global and local memory",
    "requests": "requests of constants",
}
_Key = tuple[str, str, str]  # array, memory space, kind


@dataclass(frozen=True, slots=True)
class Side:
    """Accesses of one page, with their cost and ideal over the launch; None if one is unknown."""

    entries: tuple[Entry, ...]
    cost: int | None
    ideal: int | None


@dataclass(frozen=True, slots=True)
class Pair:
    """Accesses of one kind to one array, before and after: one of each, or all where their numbers differ."""

    array: str
    space: str
    kind: str
    unit: str
    before: Side
    after: Side
    change: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of both pages as text; `change` is SAME where less is neither better nor worse."""

    name: str
    before: str
    after: str
    change: str


@dataclass(frozen=True, slots=True)
class LaunchPair:
    """Launches at one position. A name is empty where there is none."""

    before: str
    after: str
    pairs: tuple[Pair, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """`before` and `after` name the pages; `figures` are sums over their launches."""

    before: str
    after: str
    figures: tuple[Figure, ...]
    launches: tuple[LaunchPair, ...]

    def count(self, change: str) -> int:
        """The pairs of accesses with a change."""
        return sum(pair.change == change for launch in self.launches for pair in launch.pairs)


def compare(before: Page, after: Page) -> Comparison:
    """The comparison of a page with a baseline. Launches are compared by position."""
    names = [f"{page.kernel.name} of {page.kernel.spec.file}" for page in (before, after)]
    if names[0] == names[1]:
        names[0] += " (baseline)"
    launches = zip_longest(before.launches, after.launches)
    return Comparison(names[0], names[1], tuple(_figures(before, after)), tuple(_launch(*pair) for pair in launches))


def _launch(before: Launch | None, after: Launch | None) -> LaunchPair:
    sides = [_by_key(launch.entries if launch is not None else ()) for launch in (before, after)]
    pairs: list[Pair] = []
    for key in dict.fromkeys((*sides[1], *sides[0])):
        entries = [side.get(key, []) for side in sides]
        if len(entries[0]) == len(entries[1]):
            pairs += [_pair(key, [old], [new]) for old, new in zip(*entries, strict=True)]
        else:
            pairs.append(_pair(key, *entries))
    return LaunchPair(
        before.planned.name if before is not None else "", after.planned.name if after is not None else "", tuple(pairs)
    )


def _by_key(entries: Sequence[Entry]) -> dict[_Key, list[Entry]]:
    groups: dict[_Key, list[Entry]] = {}
    for entry in entries:
        access = entry.report.access
        groups.setdefault((access.array.symbol, entry.report.space, access.kind), []).append(entry)
    return groups


def _pair(key: _Key, before: list[Entry], after: list[Entry]) -> Pair:
    old, new = _side(before), _side(after)
    return Pair(*key, (after or before)[0].report.unit, old, new, _change(old, new))


def _side(entries: list[Entry]) -> Side:
    known = all(entry.report.totals is not None for entry in entries)
    cost = sum(entry.report.cost for entry in entries) if known else None
    return Side(tuple(entries), cost, sum(entry.report.ideal for entry in entries) if known else None)


def _change(before: Side, after: Side) -> str:
    if not before.entries:
        return ADDED
    if not after.entries:
        return REMOVED
    return _less_is_better(before.cost, after.cost)


def _less_is_better(before: float | None, after: float | None) -> str:
    if before is None or after is None:
        return UNKNOWN
    return SAME if before == after else BETTER if after < before else WORSE


def _figures(before: Page, after: Page) -> Iterator[Figure]:
    for unit, name in _UNITS.items():
        sums = _cost(before, unit), _cost(after, unit)
        if any(sums):
            yield _figure(name, *sums, "{:,}".format)
    yield _figure("warp executions of accesses", _warps(before), _warps(after), "{:,}".format)
    for level, name in (("moved", "least time, every sector moved"), ("compulsory", "least time, each byte once")):
        yield _figure(name, _seconds(before, level), _seconds(after, level), time_text)
    for name, text in (
        ("shared bytes per block", _shared_bytes),
        ("resident blocks per SM, at most", _blocks_per_sm),
        ("occupancy, at most", _occupancy),
    ):
        yield Figure(name, ", ".join(map(text, before.launches)), ", ".join(map(text, after.launches)), SAME)


def _figure(name: str, before: float | None, after: float | None, text: Callable[[float], str]) -> Figure:
    old, new = ("unknown" if value is None else text(value) for value in (before, after))
    return Figure(name, old, new, _less_is_better(before, after))


def _cost(page: Page, unit: str) -> int | None:
    """The cost of all accesses in a unit; None if one is unknown."""
    reports = [entry.report for entry in page.entries if entry.report.unit == unit]
    return sum(report.cost for report in reports) if all(report.totals is not None for report in reports) else None


def _warps(page: Page) -> int | None:
    totals = [entry.report.totals for entry in page.entries]
    return None if None in totals else sum(total.warps for total in totals if total is not None)


def _seconds(page: Page, level: str) -> float | None:
    ceilings: list[Ceiling] = []
    for launch in page.launches:
        roofline = launch.report.facts.roofline
        ceilings += [ceiling for ceiling in (roofline.ceilings if roofline else ()) if ceiling.name == level]
    return sum(ceiling.seconds for ceiling in ceilings) if len(ceilings) == len(page.launches) else None


def _shared_bytes(launch: Launch) -> str:
    return f"{launch.report.facts.occupancy.shared_bytes:,}"


def _blocks_per_sm(launch: Launch) -> str:
    return f"{launch.report.facts.occupancy.occupancy.blocks_per_sm:,}"


def _occupancy(launch: Launch) -> str:
    return f"{launch.report.facts.occupancy.occupancy.fraction:.1%}"
