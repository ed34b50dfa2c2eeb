"""`cugen.lock`: the schedules found by `cugen tune`, as YAML that people read and git merges.

An entry is for one kernel on one device. Its key hashes the computation, the target, and the part of the schedule that
the spec fixes; comments, `doc` and the limits of `check` are not hashed. A spec that was edited since has no entry.

The module imports neither sympy nor numpy, since every build reads the lock.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cugen.rewrite.schedules import optional_schedule, schedule_of
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
_KEYS = (
    "kernel",
    "spec",
    "target",
    "device",
    "schedule",
    "sums",
    "time_us",
    "untuned_us",
    "runner_up",
    "at",
    "measured",
    "cugen",
)
_REQUIRED = tuple(key for key in _KEYS if key not in ("runner_up", "at", "measured"))


@dataclass(frozen=True, slots=True)
class Time:
    """Median times in microseconds, with cold and with warm caches."""

    cold: float
    warm: float


@dataclass(frozen=True, slots=True)
class Measured:
    """Conditions of a search on a cluster: GPUs of the device that took part, their driver, and the clocks of one of
    them in MHz, 0 if unknown."""

    gpus: int
    driver: str = ""
    sm_mhz: int = 0
    memory_mhz: int = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """The fastest schedule of one kernel on one device, by output; empty if it is the generator's own choice.

    `untuned`: time of that choice in the same run. `reorders`: whether sums may be taken in another order than with it.
    `params`: the values of dynamic params at which it was timed. `measured`: None for searches on one machine."""

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
    measured: Measured | None = None

    @property
    def sort_key(self) -> tuple[str, str, str]:
        """The key by which entries are sorted; unique in a lock file."""
        return self.kernel, self.spec, self.device


@dataclass(frozen=True, slots=True)
class Lock:
    """The entries of a lock file."""

    path: str
    entries: tuple[Entry, ...] = ()

    def of(self, spec: Spec) -> tuple[Entry, ...]:
        """The entries of a spec, sorted by device."""
        key = spec_key(spec)
        return tuple(e for e in sorted(self.entries, key=lambda e: e.sort_key) if e.spec == key)

    def of_other_targets(self, spec: Spec) -> tuple[Entry, ...]:
        """The entries of a spec for targets other than its own."""
        others = dict.fromkeys(e.target for e in self.entries if e.kernel == spec.kernel and e.target != spec.target)
        return tuple(entry for target in others for entry in self.of(replace(spec, target=target)))

    def of_earlier(self, spec: Spec) -> tuple[Entry, ...]:
        """The entries with the kernel's name and target for other versions of the spec."""
        key = spec_key(spec)
        return tuple(e for e in self.entries if (e.kernel, e.target) == (spec.kernel, spec.target) and e.spec != key)

    def with_entry(self, entry: Entry) -> Lock:
        """The lock with an entry in place of all others of its kernel, target and device."""
        others = [
            e for e in self.entries if (e.kernel, e.target, e.device) != (entry.kernel, entry.target, entry.device)
        ]
        return replace(self, entries=tuple(sorted([*others, entry], key=lambda e: e.sort_key)))


def spec_key(spec: Spec) -> str:
    """The key of a spec's entries: the first digits of a hash of the computation, target and fixed schedule. Typical
    sizes aren't in it: an entry has those for which it was timed."""
    written = spec.schedules if spec.tuned is None else spec.tuned.written
    params = tuple(replace(param, default=None) for param in spec.params)
    computed = replace(spec, doc="", check=Check(), schedules=written, params=params, is_choice=False)
    return computed.hash[:_HASH_DIGITS]


def apply(spec: Spec, lock: Lock, device: str = "") -> Spec:
    """The spec completed by the lock's schedule for `device`, or for the first device that has an entry."""
    spec = replace(spec, dependencies=(*spec.dependencies, lock.path))
    entry = next((e for e in lock.of(spec) if device in ("", e.device)), None)
    if entry is None:
        return spec
    tuned = Tuned(Path(lock.path).name, entry.device, entry.version, _gain(entry), spec.schedules)
    return replace(spec, schedules=filled(spec, entry.schedules), tuned=tuned)


def filled(spec: Spec, schedules: Schedules) -> Schedules:
    """The spec's schedules by output, completed by those given."""
    by_output = dict(spec.schedules)
    for output, chosen in schedules:
        statements = tuple(s for s in spec.statements if s.target == output)
        options = optional_schedule(spec, statements).options
        made = completed(schedule_of(spec, statements) if statements else Schedule(), chosen)
        by_output[output] = replace(made, options=options)
    return tuple(by_output.items())


def completed(written: Schedule, chosen: Schedule) -> Schedule:
    """The schedule that the user wrote, its missing keys from `chosen`."""
    return Schedule(
        written.family or chosen.family,
        _overridden(written.block, chosen.block),
        _overridden(written.thread, chosen.thread),
        _overridden(written.step, chosen.step),
        tuple({**dict(chosen.tunables), **dict(written.tunables)}.items()),
        written.spans,
    )


def warnings(spec: Spec, lock: Lock, device: str = "") -> tuple[Diagnostic, ...]:
    """A warning if the lock has entries only for earlier versions of the spec, or, where it states no target, for
    another one, or for other devices than the one that the call names."""
    if entries := lock.of(spec):
        devices = dict.fromkeys(entry.device for entry in entries)
        return (_other_device(spec, lock, device, tuple(devices)),) if device and device not in devices else ()
    if not spec.states_target and (others := lock.of_other_targets(spec)):
        return (_other_target(spec, lock, others[0]),)
    earlier = lock.of_earlier(spec)
    if not earlier:
        return ()
    return (
        Diagnostic(
            "CG2107",
            f"{Path(lock.path).name} has no entry for this version of `{spec.kernel}`, only for an earlier one",
            lock.path,
            NOWHERE,
            notes=(f"tuned on {', '.join(dict.fromkeys(e.device for e in earlier))}",),
            help="run `cugen tune` for this version of the spec; until then the generator chooses",
            severity="warning",
        ),
    )


def _other_device(spec: Spec, lock: Lock, device: str, known: Sequence[str]) -> Diagnostic:
    names = " or ".join(f'`--device-name "{name}"`' for name in known)
    return Diagnostic(
        "CG2113",
        f"{Path(lock.path).name} has no entry for `{spec.kernel}` on {device}",
        lock.path,
        NOWHERE,
        notes=(f"tuned on {', '.join(known)}",),
        help=f"{names} takes what was tuned; until then the generator chooses",
        severity="warning",
    )


def _other_target(spec: Spec, lock: Lock, entry: Entry) -> Diagnostic:
    return Diagnostic(
        "CG2109",
        f"{Path(lock.path).name} has an entry for `{spec.kernel}` for {entry.target}, none for {spec.target}",
        lock.path,
        NOWHERE,
        notes=(f"tuned on {entry.device}; the spec states no target",),
        help=f"`--target {entry.target}` takes it; until then the generator chooses",
        severity="warning",
    )


def refused_warning(spec: Spec) -> tuple[Diagnostic, ...]:
    """A warning if the lock's schedule was refused."""
    if spec.tuned is None or not spec.tuned.refused:
        return ()
    message = f"the schedule of {spec.tuned.file} for `{spec.kernel}` on {spec.tuned.device} no longer fits"
    notes = (spec.tuned.refused, f"it was tuned with cugen {spec.tuned.version}; the generator's own choice is used")
    where = next((path for path in spec.dependencies if Path(path).name == spec.tuned.file), spec.tuned.file)
    cure = "run `cugen tune` again"
    return (Diagnostic("CG2105", message, where, NOWHERE, notes=notes, help=cure, severity="warning"),)


def _overridden(
    written: tuple[tuple[str, int], ...], chosen: tuple[tuple[str, int], ...]
) -> tuple[tuple[str, int], ...]:
    return tuple({**dict(chosen), **dict(written)}.items())


def _gain(entry: Entry) -> str:
    ratio = entry.untuned.cold / entry.time.cold if entry.time.cold else 1.0
    params = "".join(f", {name} = {value}" for name, value in entry.params)
    order = "; sums are taken in another order" if entry.reorders else ""
    if not entry.schedules:
        return f"the generator's own choice is the fastest, {entry.time.cold:g} µs{params}"
    return f"{entry.time.cold:g} µs{params}, {ratio:.2f} times as fast as untuned{order}"


def read(path: str | os.PathLike[str]) -> Lock:
    """The lock file; SpecError, with locations, if it is malformed."""
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
    """`read`, of a text."""
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
            entries = [entry for item in node.items if (entry := _entry(item, report)) is not None]
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
            help="use the cugen version that wrote it, or tune again",
        )


def _check_unique(entries: Sequence[Entry], nodes: Sequence[YamlNode], report: Reporter) -> None:
    seen: set[tuple[str, str, str]] = set()
    for entry, node in zip(entries, nodes, strict=True):
        if entry.sort_key in seen:
            report.error(
                "CG2106",
                f"two entries for `{entry.kernel}` on {entry.device}",
                first_line(node),
                label="the second",
                help="keep one of them, whole",
            )
        seen.add(entry.sort_key)


def _entry(node: YamlNode, report: Reporter) -> Entry | None:
    keys = read_keys(node, _KEYS, report, key="kernels", required=_REQUIRED)
    if keys is None or any(name not in keys for name in _REQUIRED):
        return None
    texts = {
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
    measured = _measured(keys["measured"].value, report) if "measured" in keys else None
    if report.failed or time is None or untuned is None:
        return None
    values = {name: text or "" for name, text in texts.items()}
    return Entry(
        values["kernel"],
        values["spec"],
        values["target"],
        values["device"],
        schedules,
        time,
        untuned,
        values["cugen"],
        values["sums"] == REORDERED,
        runner_up,
        tuple(params),
        measured,
    )


def _schedules(node: YamlNode, report: Reporter) -> Schedules:
    schedules = []
    for entry in read_mapping(node, report, key="kernels.schedule") or ():
        for _, schedule in read_schedules(entry.value, None, report):
            schedules.append((entry.name, replace(schedule, spans=())))
    return tuple(schedules)


def schedules_of_text(text: str) -> Schedules:
    """The schedules of a candidate, as a journal has them on one line. Raises SpecError for other text."""
    report = Reporter(NAME, printable(text))
    documents = parse(f"{{{text}}}", report)
    schedules = _schedules(documents[0], report) if documents else ()
    report.raise_if_failed()
    return schedules


def _runner_up(node: YamlNode, report: Reporter) -> tuple[Schedules, Time] | None:
    keys = read_keys(node, ("schedule", "time_us"), report, key="kernels.runner_up", required=("schedule", "time_us"))
    if keys is None or len(keys) < 2:
        return None
    time = _time(keys["time_us"].value, report, "kernels.runner_up.time_us")
    return None if time is None else (_schedules(keys["schedule"].value, report), time)


def _measured(node: YamlNode, report: Reporter) -> Measured | None:
    key = "kernels.measured"
    keys = read_keys(node, ("gpus", "driver", "sm_mhz", "memory_mhz"), report, key=key, required=("gpus",))
    if keys is None or "gpus" not in keys:
        return None
    driver = read_text(keys["driver"].value, report, key=f"{key}.driver") if "driver" in keys else ""
    numbers = {
        name: read_integer(keys[name].value, report, key=f"{key}.{name}", low=0, high=2**31) if name in keys else 0
        for name in ("gpus", "sm_mhz", "memory_mhz")
    }
    return Measured(numbers["gpus"] or 0, driver or "", numbers["sm_mhz"] or 0, numbers["memory_mhz"] or 0)


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
