"""Writer of lock files. Equal entries give equal bytes, and each block depends on its entry only."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from cugen.emit.files import write_atomically
from cugen.schedule.lock import KEPT, REORDERED, VERSION, Entry, Lock, Measured, Schedules, Time, read
from cugen.spec.model import Schedule

_HEAD = f"""\
# Schedules that `cugen tune` found: a block for each kernel and device, by name. `cugen generate` takes them from here.
cugen_lock: {VERSION}
kernels:
"""
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*([ .-][A-Za-z0-9_]+)*")
_RESERVED = ("true", "false", "null")


def text(lock: Lock) -> str:
    """Text of a lock file."""
    return _HEAD + "".join(f"\n{block(entry)}" for entry in sorted(lock.entries, key=lambda e: e.sort_key))


def block(entry: Entry) -> str:
    """Text of one entry."""
    lines = [
        f"- kernel: {_word(entry.kernel)}",
        f"  spec: {json.dumps(entry.spec)}",
        f"  target: {_word(entry.target)}",
        f"  device: {_word(entry.device)}",
    ]
    if entry.params:
        lines.append(f"  at: {_flow(entry.params)}")
    lines += [
        *_schedule_lines(entry.schedules, "  "),
        f"  sums: {REORDERED if entry.reorders else KEPT}",
        f"  time_us: {_time(entry.time)}",
        f"  untuned_us: {_time(entry.untuned)}",
    ]
    if entry.runner_up is not None:
        schedules, time = entry.runner_up
        lines += ["  runner_up:", *_schedule_lines(schedules, "    "), f"    time_us: {_time(time)}"]
    if entry.measured is not None:
        lines.append(f"  measured: {_conditions(entry.measured)}")
    return "\n".join([*lines, f"  cugen: {_word(entry.version)}"]) + "\n"


def update(path: Path, entries: Iterable[Entry]) -> None:
    """Adds entries to a lock file and replaces older ones of the same kernels and devices.

    Raises SpecError if the file is invalid, OSError if it can't be written."""
    lock = read(path) if path.exists() else Lock(str(path))
    for entry in entries:
        lock = lock.with_entry(entry)
    write_atomically(path, text(lock).encode())


def schedule_text(schedule: Schedule) -> str:
    """A schedule on one line, in the syntax of specs and lock files."""
    parts: list[str] = []
    if schedule.family:
        parts.append(f"family: {_word(schedule.family)}")
    for name in ("block", "thread", "step"):
        if sizes := getattr(schedule, name):
            parts.append(f"{name}: {_flow(sizes)}")
    parts += [f"{_word(name)}: {_word(value)}" for name, value in schedule.tunables]
    return f"{{{', '.join(parts)}}}"


def schedules_text(schedules: Schedules) -> str:
    """The schedules of a candidate on one line, each after its output."""
    return ", ".join(f"{output}: {schedule_text(schedule)}" for output, schedule in schedules)


def _schedule_lines(schedules: Schedules, indent: str) -> list[str]:
    if not schedules:
        return [f"{indent}schedule: {{}}"]
    lines = (f"{indent}  {_word(output)}: {schedule_text(schedule)}" for output, schedule in schedules)
    return [f"{indent}schedule:", *lines]


def _flow(pairs: Iterable[tuple[str, int]]) -> str:
    return f"{{{', '.join(f'{_word(name)}: {value}' for name, value in pairs)}}}"


def _conditions(measured: Measured) -> str:
    known = {name: value for name, value in asdict(measured).items() if value}
    return f"{{{', '.join(f'{name}: {_quoted(value)}' for name, value in known.items())}}}"


def _quoted(value: int | str) -> str:
    """A number, or a text in quotes: a driver's version may look like a number."""
    return str(value) if isinstance(value, int) else json.dumps(value)


def _time(time: Time) -> str:
    cold, warm = (float(f"{value:.4g}") for value in (time.cold, time.warm))
    return f"{{cold: {cold:.10g}, warm: {warm:.10g}}}"


def _word(value: int | str | bool) -> str:
    """A YAML scalar, quoted if it would not round-trip otherwise."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    plain = _PLAIN.fullmatch(value) and value.lower() not in _RESERVED
    return value if plain else json.dumps(value, ensure_ascii=False)
