"""What a GPU that nobody has timed a kernel on would take: the fastest schedule of the nearest GPU that was.

The time there is scaled by the modelled times of both devices. How good such predictions are is measured by holding
back each device that was timed: what the others predict for it is compared with its own times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cugen.analysis.launches.price import plan_prices, total
from cugen.analysis.totals.budget import Unknown
from cugen.machine import Device
from cugen.schedule.lock import Entry, Lock, Schedules, schedules_of_text, spec_key
from cugen.schedule.planner import make_plan
from cugen.spec.diagnostics import SpecError
from cugen.spec.model import Spec
from cugen.tune.journal import journals
from cugen.tune.timing.prepare import with_schedules
from cugen.tune.transfer import known_device, nearest_first

Times = Mapping[Schedules, float]


@dataclass(frozen=True, slots=True)
class Timed:
    """Times of a kernel on a device in microseconds, with cold caches, by schedules."""

    device: str
    target: str
    times: Times

    @property
    def fastest(self) -> list[Schedules]:
        """The schedules, fastest first."""
        return sorted(self.times, key=lambda schedules: self.times[schedules])


@dataclass(frozen=True, slots=True)
class HeldBack:
    """What the other devices predict for one that was timed. `regret`: the time there of the predicted schedule over
    the shortest of `timed` ones, None if it wasn't timed there. `error`: the predicted time over the measured one."""

    device: str
    source: str
    timed: int
    regret: float | None = None
    error: float | None = None


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a device would take. `schedules`: none for the generator's own choice, where no device was timed. `source`:
    the device that was; `microseconds`: None if unknown."""

    kernel: str
    device: str
    schedules: Schedules = ()
    source: str = ""
    microseconds: float | None = None
    held_back: tuple[HeldBack, ...] = ()

    @property
    def regrets(self) -> tuple[float, ...]:
        """The measured regrets."""
        return tuple(v.regret for v in self.held_back if v.regret is not None)


def predict(spec: Spec, device: Device, params: Mapping[str, int], lock: Lock | None = None) -> Prediction:
    """What a device of the spec's target would take, without a GPU, from journals in the cache and a lock file."""
    known = {timed.device: timed for timed in timed_on(spec, params, lock)}
    scale = _Scale(spec, params)
    held_back = tuple(_held_back(timed, known, scale) for timed in known.values() if len(known) > 1)
    others = [name for name in known if known_device(name) != device]
    for name in nearest_first(others, device.name):
        timed = known[name]
        for schedules in timed.fastest:
            if _fits(spec, schedules):
                ratio = scale.ratio(schedules, timed, device, spec.target)
                microseconds = timed.times[schedules] * ratio if ratio is not None else None
                return Prediction(spec.kernel, device.name, schedules, timed.device, microseconds, held_back)
    return Prediction(spec.kernel, device.name, held_back=held_back)


def mean(regrets: Sequence[float]) -> float | None:
    """Geometric mean of regrets; None if there are none."""
    return math.exp(sum(map(math.log, regrets)) / len(regrets)) if regrets else None


def timed_on(spec: Spec, params: Mapping[str, int], lock: Lock | None = None) -> tuple[Timed, ...]:
    """The devices on which the spec was timed, for any target, by name: from journals, and from entries of a lock file
    for devices without one."""
    timed: dict[str, Timed] = {}
    for stated, records in journals(spec.kernel):
        if stated.spec != spec_key(replace(spec, target=stated.target)) or dict(stated.params) != dict(params):
            continue
        times: dict[Schedules, float] = {}
        for record in records.values():
            if record.schedule and not record.failed and record.cold:
                try:
                    times[schedules_of_text(record.schedule)] = record.cold
                except SpecError:  # of another version of cugen
                    continue
        before = timed.get(stated.device)
        if times and (before is None or min(times.values()) < min(before.times.values())):
            timed[stated.device] = Timed(stated.device, stated.target, times)
    for entry in (*lock.of(spec), *lock.of_other_targets(spec)) if lock is not None else ():
        if entry.device not in timed and dict(entry.params) == dict(params) and (times := _times_of(entry)):
            timed[entry.device] = Timed(entry.device, entry.target, times)
    return tuple(timed[device] for device in sorted(timed))


def _times_of(entry: Entry) -> dict[Schedules, float]:
    """The times of an entry; that of the generator's own choice has no schedules, and is left out."""
    pairs = [(entry.schedules, entry.time), *([entry.runner_up] if entry.runner_up else [])]
    return {schedules: time.cold for schedules, time in pairs if schedules}


def _held_back(timed: Timed, known: Mapping[str, Timed], scale: _Scale) -> HeldBack:
    """What the nearest other device predicts for a timed one."""
    nearest = known[nearest_first(known.keys() - {timed.device}, timed.device)[0]]
    schedules = nearest.fastest[0]
    if (measured := timed.times.get(schedules)) is None:
        return HeldBack(timed.device, nearest.device, len(timed.times))
    device = known_device(timed.device)
    ratio = scale.ratio(schedules, nearest, device, timed.target) if device is not None else None
    error = nearest.times[schedules] * ratio / measured if ratio is not None else None
    return HeldBack(timed.device, nearest.device, len(timed.times), measured / min(timed.times.values()), error)


def _fits(spec: Spec, schedules: Schedules) -> bool:
    try:
        make_plan(with_schedules(spec, schedules))
    except SpecError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Scale:
    """Ratios of modelled times of a spec's schedules on two devices."""

    spec: Spec
    params: Mapping[str, int]

    def ratio(self, schedules: Schedules, source: Timed, device: Device, target: str) -> float | None:
        """The modelled time on a device, for its target, over that on the source; None if either is unknown."""
        there = known_device(source.device)
        before = self._seconds(schedules, there, source.target) if there is not None else None
        after = self._seconds(schedules, device, target)
        return after / before if before and after else None

    def _seconds(self, schedules: Schedules, device: Device, target: str) -> float | None:
        try:
            plan = make_plan(with_schedules(replace(self.spec, target=target), schedules))
            price = total(plan_prices(plan, self.params, device))
        except (SpecError, Unknown):
            return None
        return price.seconds if price.is_complete else None
