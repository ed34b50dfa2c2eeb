"""The launches of two kernels compared, access by access and in all: what costs less and what costs more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from cugen.analysis.launches.ceilings import Ceiling
from cugen.analysis.launches.facts import Facts
from cugen.analysis.launches.price import launch_price
from cugen.analysis.launches.sentences import time_text
from cugen.analysis.totals.budget import Unknown
from cugen.analysis.totals.sites import SPIN_WAIT
from cugen.analysis.verdicts.report import AccessReport
from cugen.machine import device as known_device
from cugen.spec.model import Spec

BETTER, WORSE, SAME, ADDED, REMOVED, UNKNOWN = "better", "worse", "same", "added", "removed", "unknown"
_UNITS = {
    "wavefronts": "wavefronts of shared memory",
    "sectors": "sectors of global and local memory",
    "requests": "requests of constants",
}
_READS = ("load", "matrix_load", "tensor_load", "operand")
_Key = tuple[str, str, str]  # array, memory space, role


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a kernel: its family, its accesses in source order, and its facts."""

    name: str
    family: str
    accesses: tuple[AccessReport, ...]
    facts: Facts

    @property
    def counted(self) -> tuple[AccessReport, ...]:
        """The accesses without spin-waits, whose number depends on the time that others take."""
        return tuple(report for report in self.accesses if report.doubt != SPIN_WAIT)


@dataclass(frozen=True, slots=True)
class Compared:
    """A kernel with its spec and its launches."""

    spec: Spec
    launches: tuple[Launch, ...]


@dataclass(frozen=True, slots=True)
class Side:
    """Accesses of one kernel, with their cost and ideal over the launch; None if one is unknown."""

    accesses: tuple[AccessReport, ...]
    cost: int | None
    ideal: int | None

    @property
    def texts(self) -> tuple[str, ...]:
        """The accesses as printed, each once."""
        return tuple(dict.fromkeys(access.text for access in self.accesses))


@dataclass(frozen=True, slots=True)
class Pair:
    """Accesses to one array in one role, before and after: one of each, or all where their numbers differ.

    array: its name in the spec, else in C. role: `read`, `write`, `atomic` or `barrier`; a tile of an array is written
    and read in shared memory."""

    array: str
    space: str
    role: str
    unit: str
    before: Side
    after: Side
    change: str

    @property
    def growth(self) -> float | None:
        """By which share the cost has grown."""
        return _growth(self.before.cost, self.after.cost)


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of both kernels as text; `change` is SAME where less is neither better nor worse. growth: the share by
    which it has grown."""

    name: str
    before: str
    after: str
    change: str
    growth: float | None = None


@dataclass(frozen=True, slots=True)
class LaunchPair:
    """Launches at one position. A name is empty where there is none."""

    before: str
    after: str
    pairs: tuple[Pair, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """`before` and `after` name the kernels; `settings` are what differs in the specs, as (key, before, after), and
    `figures` are of all their launches."""

    before: str
    after: str
    settings: tuple[tuple[str, str, str], ...]
    figures: tuple[Figure, ...]
    launches: tuple[LaunchPair, ...]

    def count(self, change: str) -> int:
        """The pairs of accesses with a change."""
        return sum(pair.change == change for launch in self.launches for pair in launch.pairs)

    @property
    def is_worse(self) -> bool:
        """Whether an access or a figure is worse than before."""
        return self.count(WORSE) > 0 or any(figure.change == WORSE for figure in self.figures)


def compare(before: Compared, after: Compared) -> Comparison:
    """The comparison of a kernel with a baseline. Launches are compared by position."""
    names = [f"{side.spec.kernel} of {side.spec.file}" for side in (before, after)]
    if names[0] == names[1]:
        locks = [side.spec.tuned.file if side.spec.tuned is not None else "" for side in (before, after)]
        names[0] += f" with {locks[0]}" if locks[0] not in ("", locks[1]) else " (baseline)"
    launches = tuple(_launch(*pair) for pair in zip_longest(before.launches, after.launches))
    figures = tuple(_figures(before.launches, after.launches))
    return Comparison(names[0], names[1], tuple(_settings(before, after)), figures, launches)


def _settings(before: Compared, after: Compared) -> Iterator[tuple[str, str, str]]:
    """What the specs say otherwise of schedules and of memory, and the families that follow."""
    old, new = (dict(_said(side)) for side in (before, after))
    for key in dict.fromkeys((*old, *new)):
        if old.get(key) != new.get(key):
            yield key, old.get(key, "-"), new.get(key, "-")


def _said(side: Compared) -> Iterator[tuple[str, str]]:
    yield "family", ", ".join(launch.family for launch in side.launches)
    for output, schedule in side.spec.schedules:
        prefix = f"schedule.{output}" if output else "schedule"
        for key, sizes in (("block", schedule.block), ("thread", schedule.thread), ("step", schedule.step)):
            if sizes:
                yield f"{prefix}.{key}", ", ".join(f"{index}: {size}" for index, size in sizes)
        yield from ((f"{prefix}.{name}", str(value)) for name, value in schedule.tunables)
    for array in side.spec.arrays:
        memory = array.memory
        options = [f"pad {memory.pad}"] * (memory.pad > 0) + ["swizzle"] * memory.swizzle
        options += [f"stages {memory.stages}"] * (memory.stages > 1)
        yield f"memory of {array.name}", ", ".join((memory.space or "by the generator", *options))


def _launch(before: Launch | None, after: Launch | None) -> LaunchPair:
    sides = [_by_key(launch.accesses if launch is not None else ()) for launch in (before, after)]
    pairs: list[Pair] = []
    for key in dict.fromkeys((*sides[1], *sides[0])):
        accesses = [side.get(key, []) for side in sides]
        if len(accesses[0]) == len(accesses[1]):
            pairs += [_pair(key, [old], [new]) for old, new in zip(*accesses, strict=True)]
        else:
            pairs.append(_pair(key, *accesses))
    return LaunchPair(before.name if before is not None else "", after.name if after is not None else "", tuple(pairs))


def _by_key(accesses: Sequence[AccessReport]) -> dict[_Key, list[AccessReport]]:
    groups: dict[_Key, list[AccessReport]] = {}
    for report in accesses:
        array = report.access.array
        groups.setdefault((array.name or array.symbol, report.space, _role(report.access.kind)), []).append(report)
    return groups


def _role(kind: str) -> str:
    if kind in _READS:
        return "read"
    return kind if kind in ("atomic", "barrier") else "write"


def _pair(key: _Key, before: list[AccessReport], after: list[AccessReport]) -> Pair:
    old, new = _side(before), _side(after)
    return Pair(*key, (after or before)[0].unit, old, new, _change(old, new))


def _side(accesses: list[AccessReport]) -> Side:
    known = all(report.totals is not None for report in accesses)
    cost = sum(report.cost for report in accesses) if known else None
    return Side(tuple(accesses), cost, sum(report.ideal for report in accesses) if known else None)


def _change(before: Side, after: Side) -> str:
    if not before.accesses:
        return ADDED
    if not after.accesses:
        return REMOVED
    return _less_is_better(before.cost, after.cost)


def _growth(before: float | None, after: float | None) -> float | None:
    return None if not before or after is None else after / before - 1


def _less_is_better(before: float | None, after: float | None) -> str:
    if before is None or after is None:
        return UNKNOWN
    return SAME if before == after else BETTER if after < before else WORSE


def _more_is_better(before: float | None, after: float | None) -> str:
    return _less_is_better(after, before)


def _figures(before: Sequence[Launch], after: Sequence[Launch]) -> Iterator[Figure]:
    for unit, name in _UNITS.items():
        sums = _cost(before, unit), _cost(after, unit)
        if sums != (0, 0):
            yield _figure(name, *sums, "{:,}".format)
    for level, name in (("moved", "least time, every sector moved"), ("compulsory", "least time, each byte once")):
        yield _figure(name, _seconds(before, level), _seconds(after, level), time_text)
    yield _figure("modelled time", _modelled(before), _modelled(after), time_text)
    for name, text, value in (
        ("occupancy", _occupancy_text, _occupancy),
        ("block slots in use over all waves", _slots_text, _slots),
        ("SMs with a block", _busy_text, _busy),
    ):
        lowest = _lowest(before, value), _lowest(after, value)
        yield Figure(
            name, ", ".join(map(text, before)), ", ".join(map(text, after)), _more_is_better(*lowest), _growth(*lowest)
        )
    for name, text in (("shared bytes per block", _shared_bytes), ("resident blocks per SM", _blocks_per_sm)):
        yield Figure(name, ", ".join(map(text, before)), ", ".join(map(text, after)), SAME)


def _figure(name: str, before: float | None, after: float | None, text: Callable[[float], str]) -> Figure:
    old, new = ("unknown" if value is None else text(value) for value in (before, after))
    change = ADDED if before == 0 and after else REMOVED if before and after == 0 else _less_is_better(before, after)
    return Figure(name, old, new, change, _growth(before, after))


def _cost(launches: Sequence[Launch], unit: str) -> int | None:
    """The cost of all accesses in a unit; None if one is unknown."""
    reports = [report for launch in launches for report in launch.counted if report.unit == unit]
    return sum(report.cost for report in reports) if all(report.totals is not None for report in reports) else None


def _seconds(launches: Sequence[Launch], level: str) -> float | None:
    ceilings: list[Ceiling] = []
    for launch in launches:
        roofline = launch.facts.roofline
        ceilings += [ceiling for ceiling in (roofline.ceilings if roofline else ()) if ceiling.name == level]
    return sum(ceiling.seconds for ceiling in ceilings) if len(ceilings) == len(launches) else None


def _modelled(launches: Sequence[Launch]) -> float | None:
    """The modelled time of all launches; None if one is unknown, or has accesses of unknown cost."""
    seconds = 0.0
    for launch in launches:
        if not launch.facts.device:
            return None
        try:
            price = launch_price(launch.facts, launch.accesses, known_device(launch.facts.device))
        except Unknown:
            return None
        if any(report.totals is None for report in launch.counted):
            return None
        seconds += price.seconds
    return seconds


def _lowest(launches: Sequence[Launch], value: Callable[[Launch], float | None]) -> float | None:
    values = [value(launch) for launch in launches]
    known = [number for number in values if number is not None]
    return min(known) if len(known) == len(values) else None


def _occupancy(launch: Launch) -> float | None:
    return launch.facts.occupancy.occupancy.fraction


def _occupancy_text(launch: Launch) -> str:
    """At most that, without registers."""
    bound = "at most " if launch.facts.occupancy.registers is None else ""
    return f"{bound}{launch.facts.occupancy.occupancy.fraction:.1%}"


def _slots(launch: Launch) -> float | None:
    """The block slots in use over all waves; all of them if the blocks are no more than one."""
    waves = launch.facts.waves
    if waves is None:
        return None
    return waves.utilisation if waves.full_waves else 1.0


def _slots_text(launch: Launch) -> str:
    waves = launch.facts.waves
    if waves is None:
        return "unknown"
    return f"{waves.utilisation:.1%} of {waves.waves:.2f} waves" if waves.full_waves else f"{waves.waves:.2f} waves"


def _busy(launch: Launch) -> float | None:
    if launch.facts.waves is None:
        return None
    return known_device(launch.facts.device).sms - launch.facts.waves.idle_sms


def _busy_text(launch: Launch) -> str:
    busy = _busy(launch)
    return "unknown" if busy is None else f"{busy:.0f} of {known_device(launch.facts.device).sms}"


def _shared_bytes(launch: Launch) -> str:
    return f"{launch.facts.occupancy.shared_bytes:,}"


def _blocks_per_sm(launch: Launch) -> str:
    return f"{launch.facts.occupancy.occupancy.blocks_per_sm:,}"
