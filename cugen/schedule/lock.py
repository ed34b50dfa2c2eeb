"""`cugen.lock`: the schedules that `cugen tune` found, as a text that people read and git merges.

An entry is for one kernel on one device. It is found by a hash of what is computed, the target, and what the user fixed
about the schedule: what was best under other conditions is a mixture that nobody timed, so a spec whose schedule was
edited has no entry, and is told of it. Comments, `doc` and the limits of `check` don't count.

Reading is light, since every build does it: neither sympy nor numpy is imported.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cugen.plan.schedules import schedule_of
from cugen.spec.diagnostics import Diagnostic, Reporter, SpecError
from cugen.spec.expressions import NOWHERE, Span
from cugen.spec.model import Check, Schedule, Spec, Tuned
from cugen.spec.parse.nodes import MAX_BYTES, YamlNode, YamlScalar, YamlSequence, decode, parse, printable
from cugen.spec.parse.reading import first_line, read_integer, read_keys, read_mapping, read_text, wrong_type
from cugen.spec.resolve.keys.schedule import read_schedules

NAME = "cugen.lock"
VERSION = 1
Schedules = tuple[tuple[str, Schedule], ...]
REORDERED, KEPT = "in another order", "as untuned"

_HASH_DIGITS = 16
_MARKER = re.compile(r"^(<{7}|={7}|>{7}|\|{7})( |$)", re.MULTILINE)
_KEYS = ("kernel", "spec", "target", "device", "schedule", "sums", "time_us", "untuned_us", "runner_up", "at", "cugen")
_REQUIRED = tuple(key for key in _KEYS if key not in ("runner_up", "at"))


@dataclass(frozen=True, slots=True)
class Time:
    """Medians in microseconds, with cold and with warm caches."""

    cold: float
    warm: float


@dataclass(frozen=True, slots=True)
class Entry:
    """The best schedule of one kernel on one device, by the names of outputs; empty where the generator's own is.

    `untuned` is the time of the generator's own in the same run; `reorders` says whether sums may be taken in another
    order than there. `params` are the values of dynamic params at which it was timed."""

    kernel: str
    spec: str
    target: str
    device: str
    schedules: Schedules
    time: Time
    untuned: Time
    version: str
    reorders: bool = False
    runner_up: tuple[Schedules, Time] | None = None
    params: tuple[tuple[str, int], ...] = ()

    @property
    def place(self) -> tuple[str, str, str]:
        """What it is sorted by; there is one entry for each."""
        return self.kernel, self.spec, self.device


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock file; `path` as it was given."""

    path: str
    entries: tuple[Entry, ...] = ()

    def of(self, spec: Spec) -> tuple[Entry, ...]:
        """The entries of a spec, by device."""
        wanted = spec_key(spec)
        return tuple(e for e in sorted(self.entries, key=lambda e: e.place) if e.spec == wanted)

    def of_earlier(self, spec: Spec) -> tuple[Entry, ...]:
        """Entries of the kernel's name and target for other states of the spec."""
        wanted = spec_key(spec)
        return tuple(e for e in self.entries if (e.kernel, e.target) == (spec.kernel, spec.target) and e.spec != wanted)

    def with_entry(self, entry: Entry) -> Lock:
        """With the entry in place of an older one; those of earlier states of the kernel are dropped."""
        kept = [e for e in self.entries if (e.kernel, e.target, e.device) != (entry.kernel, entry.target, entry.device)]
        return replace(self, entries=tuple(sorted([*kept, entry], key=lambda e: e.place)))


def spec_key(spec: Spec) -> str:
    """The start of the hash of all that decides which schedule is best."""
    written = spec.schedules if spec.tuned is None else spec.tuned.written
    return replace(spec, doc="", check=Check(), schedules=written).hash[:_HASH_DIGITS]


def apply(spec: Spec, lock: Lock, device: str = "") -> Spec:
    """The spec with the lock's schedule where it is silent: that for `device`, or for the first of the target's."""
    spec = replace(spec, dependencies=(*spec.dependencies, lock.path))
    entry = next((e for e in lock.of(spec) if device in ("", e.device)), None)
    if entry is None:
        return spec
    tuned = Tuned(Path(lock.path).name, entry.device, entry.version, _gain(entry), spec.schedules)
    return replace(spec, schedules=filled(spec, entry.schedules), tuned=tuned)


def filled(spec: Spec, schedules: Schedules) -> Schedules:
    """The spec's schedules, and where they are silent those given, by output."""
    found = dict(spec.schedules)
    for output, chosen in schedules:
        statements = tuple(s for s in spec.statements if s.target == output)
        found[output] = completed(schedule_of(spec, statements) if statements else Schedule(), chosen)
    return tuple(found.items())


def completed(written: Schedule, chosen: Schedule) -> Schedule:
    """What the user wrote, and of `chosen` the rest."""
    return Schedule(
        written.family or chosen.family,
        _joined(written.block, chosen.block),
        _joined(written.thread, chosen.thread),
        _joined(written.step, chosen.step),
        tuple({**dict(chosen.tunables), **dict(written.tunables)}.items()),
        written.spans,
    )


def warnings(spec: Spec, lock: Lock, device: str = "") -> tuple[Diagnostic, ...]:
    """What somebody should know who expects the lock to be used for this spec."""
    if lock.of(spec) or not (earlier := lock.of_earlier(spec)):
        return ()
    return (
        Diagnostic(
            "CG2107",
            f"{Path(lock.path).name} has no entry for `{spec.kernel}` as it is now, only for an earlier state",
            lock.path,
            NOWHERE,
            notes=(f"that was tuned on {', '.join(dict.fromkeys(e.device for e in earlier))}",),
            help="`cugen tune` finds a schedule for the spec as it is; until then the generator chooses",
            severity="warning",
        ),
    )


def refused_warning(spec: Spec) -> tuple[Diagnostic, ...]:
    """That the lock's schedule was left aside, where it was."""
    if spec.tuned is None or not spec.tuned.refused:
        return ()
    message = f"the schedule of {spec.tuned.file} for `{spec.kernel}` on {spec.tuned.device} no longer fits"
    notes = (spec.tuned.refused, f"it was found by cugen {spec.tuned.version}; the generator's own choice is used")
    where = next((path for path in spec.dependencies if Path(path).name == spec.tuned.file), spec.tuned.file)
    cure = "`cugen tune` finds another"
    return (Diagnostic("CG2105", message, where, NOWHERE, notes=notes, help=cure, severity="warning"),)


def _joined(written: tuple[tuple[str, int], ...], chosen: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    return tuple({**dict(chosen), **dict(written)}.items())


def _gain(entry: Entry) -> str:
    ratio = entry.untuned.cold / entry.time.cold if entry.time.cold else 1.0
    at = "".join(f", {name} = {value}" for name, value in entry.params)
    order = "; sums are taken in another order" if entry.reorders else ""
    if not entry.schedules:
        return f"the generator's own is the fastest, {entry.time.cold:g} µs{at}"
    return f"{entry.time.cold:g} µs{at}, {ratio:.2f} times as fast as untuned{order}"


def read(path: str | os.PathLike[str]) -> Lock:
    """The lock file. SpecError, with the places, where it isn't one."""
    name = os.fspath(path)
    report = Reporter(name)
    try:
        with open(path, "rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        message = f"`{name}` can't be read: {error.strerror or error}"
        raise SpecError([Diagnostic("CG2106", message, name, NOWHERE, help="check the path")]) from None
    text = decode(content, report)
    if text is None:
        raise SpecError(report.diagnostics)
    return read_text_of(text, name)


def read_text_of(text: str, name: str = NAME) -> Lock:
    """As `read`, of a text."""
    report = Reporter(name, printable(text))
    if marker := _MARKER.search(text):
        line = text.count("\n", 0, marker.start()) + 1
        report.error(
            "CG2106",
            "an unfinished merge",
            Span(line, 1, line, 1 + len(marker[1])),
            label="a marker of git",
            help="keep the blocks of both sides; of two for one kernel and device keep either, whole",
        )
        report.raise_if_failed()
    documents = parse(text, report)
    report.raise_if_failed()
    if not documents:
        return Lock(name)
    keys = read_keys(documents[0], ("cugen_lock", "kernels"), report, key="", required=("cugen_lock", "kernels"))
    entries: list[Entry] = []
    if keys is not None and not report.failed:
        _check_version(keys["cugen_lock"].value, report)
        node = keys["kernels"].value
        if isinstance(node, YamlSequence):
            entries = [found for item in node.items if (found := _entry(item, report)) is not None]
            if not report.failed:
                _check_unique(entries, node.items, report)
        elif not (isinstance(node, YamlScalar) and node.value is None):
            wrong_type(node, "a list", report, key="kernels")
    report.raise_if_failed()
    return Lock(name, tuple(entries))


def _check_version(node: YamlNode, report: Reporter) -> None:
    if not isinstance(node, YamlScalar) or node.value != VERSION:
        report.error(
            "CG2106",
            f"this cugen reads lock files of version {VERSION}",
            first_line(node),
            key="cugen_lock",
            label="another version",
            help="use the cugen that wrote it, or tune again",
        )


def _check_unique(entries: Sequence[Entry], nodes: Sequence[YamlNode], report: Reporter) -> None:
    seen: set[tuple[str, str, str]] = set()
    for entry, node in zip(entries, nodes, strict=True):
        if entry.place in seen:
            report.error(
                "CG2106",
                f"two entries for `{entry.kernel}` on {entry.device}",
                first_line(node),
                label="the second",
                help="keep one of them, whole",
            )
        seen.add(entry.place)


def _entry(node: YamlNode, report: Reporter) -> Entry | None:
    keys = read_keys(node, _KEYS, report, key="kernels", required=_REQUIRED)
    if keys is None or any(name not in keys for name in _REQUIRED):
        return None
    words = {
        name: read_text(keys[name].value, report, key=f"kernels.{name}")
        for name in ("kernel", "spec", "target", "device", "sums", "cugen")
    }
    schedules = _schedules(keys["schedule"].value, report)
    time, untuned = (_time(keys[name].value, report, f"kernels.{name}") for name in ("time_us", "untuned_us"))
    runner_up = _runner_up(keys["runner_up"].value, report) if "runner_up" in keys else None
    params = []
    for item in read_mapping(keys["at"].value, report, key="kernels.at") or () if "at" in keys else ():
        value = read_integer(item.value, report, key=f"kernels.at.{item.name}", low=-(2**63), high=2**63)
        params.append((item.name, value or 0))
    if report.failed or time is None or untuned is None:
        return None
    found = {name: word or "" for name, word in words.items()}
    return Entry(
        found["kernel"],
        found["spec"],
        found["target"],
        found["device"],
        schedules,
        time,
        untuned,
        found["cugen"],
        found["sums"] == REORDERED,
        runner_up,
        tuple(params),
    )


def _schedules(node: YamlNode, report: Reporter) -> Schedules:
    found = []
    for entry in read_mapping(node, report, key="kernels.schedule") or ():
        for _, schedule in read_schedules(entry.value, None, report):
            found.append((entry.name, replace(schedule, spans=())))
    return tuple(found)


def _runner_up(node: YamlNode, report: Reporter) -> tuple[Schedules, Time] | None:
    keys = read_keys(node, ("schedule", "time_us"), report, key="kernels.runner_up", required=("schedule", "time_us"))
    if keys is None or len(keys) < 2:
        return None
    time = _time(keys["time_us"].value, report, "kernels.runner_up.time_us")
    return None if time is None else (_schedules(keys["schedule"].value, report), time)


def _time(node: YamlNode, report: Reporter, key: str) -> Time | None:
    keys = read_keys(node, ("cold", "warm"), report, key=key, required=("cold", "warm"))
    numbers = []
    for entry in (keys or {}).values():
        value = entry.value.value if isinstance(entry.value, YamlScalar) else None
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            wrong_type(entry.value, "a positive number", report, key=f"{key}.{entry.name}")
            continue
        numbers.append(float(value))
    return Time(*numbers) if len(numbers) == 2 else None
