"""The report of the child process and its sanitizers: times, address ranges, and the fault."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from cugen.runtime.device import Fault

Lines = Callable[[Iterable[int]], dict[int, int]]  # code addresses to lines of the .cu

_MISALIGNED = re.compile(r"runtime error: .*misaligned address (0x[0-9a-f]+) for type .*, which requires (\d+) byte")
_COUNTER = re.compile(r"@([0-9a-f]+)@")
_ASAN = re.compile(r"ERROR: AddressSanitizer: ([\w-]+)(?:.*? address (0x[0-9a-f]+))?")
_ACCESS = re.compile(r"^(READ|WRITE) of size (\d+)", re.MULTILINE)
_SIGNALLED = re.compile(r"caused by a (READ|WRITE) memory access")
_GLOBAL = re.compile(
    r"is located (\d+) bytes (?:to the right of|after|to the left of|before) global variable '([^']+)'"
)


@dataclass
class Report:
    """`buffers` and `memory` (shared arrays and variables) are (name, first address, bytes); `arrays` are (name,
    whether shared), indexed by a trace."""

    offset: int = 0
    times_ms: list[float] = field(default_factory=list)
    buffers: list[tuple[str, int, int]] = field(default_factory=list)
    memory: list[tuple[str, int, int]] = field(default_factory=list)
    arrays: list[tuple[str, bool]] = field(default_factory=list)
    fault: str = ""  # "kind line code-address message"


def read_report(path: Path) -> Report:
    """The child's report; empty where it wrote none."""
    report = Report()
    if not path.exists():
        return report
    for line in path.read_text(errors="replace").splitlines():
        key, _, value = line.partition(" ")
        match key:
            case "offset":
                report.offset = int(value, 16)
            case "time":
                report.times_ms.append(float(value))
            case "buffer" | "memory":
                name, start, size = value.split()
                ranges = report.buffers if key == "buffer" else report.memory
                ranges.append((name, int(start, 16), int(size)))
            case "array":
                kind, name = value.split()
                report.arrays.append((name, kind == "shared"))
            case "fault":
                report.fault = value
    return report


def fault_of(status: int, report: Report, errors: str, source_name: str, lines: Lines) -> Fault | None:
    """The fault that ended the child, or None. `errors` is its standard error."""
    if report.fault:
        return _reported(report, lines)
    if status == 0:
        return None
    return (
        _misaligned(errors, report, source_name)
        or _undefined(errors, source_name)
        or _address(errors, report, source_name)
        or _crash(status, errors, source_name)
    )


def _reported(report: Report, lines: Lines) -> Fault:
    kind, line, counter, message = report.fault.split(" ", 3)
    mentioned = [int(text, 16) - report.offset for text in _COUNTER.findall(message)]
    counters = [int(counter, 16) - report.offset] if int(counter, 16) else []
    line_of = lines([*counters, *mentioned])
    for address in mentioned:
        message = _COUNTER.sub(f"line {line_of.get(address, 0)}", message, count=1)
    fault_line = int(line) or (line_of.get(counters[0], 0) if counters else 0)
    return Fault(kind.replace("-", " "), message, fault_line)


def _misaligned(errors: str, report: Report, source_name: str) -> Fault | None:
    """Of an address that is no multiple of its type's alignment, in the words of the unsanitised builds."""
    match = _MISALIGNED.search(errors)
    if match is None:
        return None
    address = int(match[1], 16)
    where = "a local variable"
    for name, start, size in (*report.buffers, *report.memory):
        if start <= address < start + size:
            where = f"byte {address - start} of {name}"
    message = f"access at {where}, an address that is no multiple of {match[2]}"
    return Fault("misaligned address", message, _frames(errors, source_name)[-1])


def _undefined(errors: str, source_name: str) -> Fault | None:
    match = re.search(rf"{re.escape(source_name)}:(\d+):\d+: runtime error: (.*)", errors)
    if match is None:
        match = re.search(r":(\d+):\d+: runtime error: (.*)", errors)
        return Fault("undefined", match[2], _frame(errors, source_name)) if match else None
    kind = "out of bounds" if "out of bounds" in match[2] else "undefined"
    return Fault(kind, match[2], int(match[1]))


def _address(errors: str, report: Report, source_name: str) -> Fault | None:
    match = _ASAN.search(errors)
    if match is None:
        return None
    access = _ACCESS.search(errors)
    if access:
        what = f"{access[1].lower()} of {access[2]} bytes"
    else:
        signalled = _SIGNALLED.search(errors)
        what = signalled[1].lower() if signalled else "access"
    line = _frame(errors, source_name)
    if match[1] == "stack-overflow":
        return Fault("crash", "the stack of a thread overflowed", line)
    if match[2] is None:
        return Fault("crash", f"AddressSanitizer: {match[1]}", line)
    address = int(match[2], 16)
    for name, start, size in sorted(report.buffers, key=lambda b: abs(2 * address - 2 * b[1] - b[2])):
        if start <= address < start + size:
            return Fault("read only", f"{what} to the input {name} at byte {address - start}", line)
        if start - (1 << 20) <= address < start:
            return Fault("out of bounds", f"{what}, {start - address} bytes before the start of {name}", line)
        if start + size <= address < start + size + (1 << 20):
            return Fault("out of bounds", f"{what}, {address - start - size} bytes past the end of {name}", line)
    if near := _GLOBAL.search(errors):
        return Fault("out of bounds", f"{what}, {near[1]} bytes outside {near[2]}", line)
    if match[1] == "use-after-poison":
        return Fault("out of bounds", f"{what} beyond the launch's dynamic shared memory", line)
    kind = "crash" if match[1] == "SEGV" else "out of bounds"
    return Fault(kind, f"{what}: {match[1].replace('-', ' ')}", line)


def _crash(status: int, errors: str, source_name: str) -> Fault:
    match = re.search(rf"{re.escape(source_name)}:(\d+): (.*)", errors)  # of an assert
    if match:
        return Fault("crash", match[2], int(match[1]))
    reason = signal.strsignal(-status) if status < 0 else f"exit status {status}"
    last = errors.strip().splitlines()[-1:] or [""]
    return Fault("crash", f"the child ended: {reason} {last[0]}".rstrip())


def _frame(errors: str, source_name: str) -> int:
    """Line of the innermost frame in the .cu."""
    return _frames(errors, source_name)[0]


def _frames(errors: str, source_name: str) -> list[int]:
    """Lines of the frames in the .cu, innermost first; 0 where there is none."""
    lines = re.findall(rf"^\s*#\d+ .*\b{re.escape(source_name)}:(\d+)", errors, re.MULTILINE)
    return [int(line) for line in lines] or [0]
