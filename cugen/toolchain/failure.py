"""Report of a failed compilation: each error with its lines of the .cu and their provenance."""

from __future__ import annotations

from collections.abc import Mapping

from cugen.toolchain import messages
from cugen.toolchain.errors import CompileError

_CONTEXT_LINES = 2  # above and below an error
_MAX_ERRORS_SHOWN = 5  # later errors are mostly consequences


def explain_failure(error: CompileError, source: str, provenance: Mapping[int, str] | None = None) -> str:
    """The report. `source` is the compiled text; `provenance` maps its lines (1-based) to their origin, such as
    "templates/tiled.cu.j2:41, key arrays.A.memory". A line without an entry has that of the nearest one above."""
    errors = messages.errors(error.output)
    in_source = [message for message in errors if message.line and message.file.endswith(error.source_name)]
    parts = [f"error[{error.code}]: {error.reason}"]
    for message in in_source[:_MAX_ERRORS_SHOWN]:
        parts.append(_quoted(message, source.splitlines(), provenance or {}))
    if len(in_source) > _MAX_ERRORS_SHOWN:
        parts.append(f"  … and {len(in_source) - _MAX_ERRORS_SHOWN} more")
    elsewhere = [message for message in errors if message not in in_source]
    parts += [f"  = {_location(message)}{message.text}" for message in elsewhere[:_MAX_ERRORS_SHOWN]]
    if not errors and error.output.strip():
        parts.append(error.output.rstrip())
    parts.append(f"  = note: the command was: {' '.join(error.command)}")
    parts.append(f"  = explain: cugen explain {error.code}")
    return "\n".join(parts)


def _quoted(message: messages.Message, lines: list[str], provenance: Mapping[int, str]) -> str:
    first = max(1, message.line - _CONTEXT_LINES)
    last = min(len(lines), message.line + _CONTEXT_LINES)
    width = len(str(last))
    text = [f"{' ' * width}--> {message.file}:{message.line}", f"{' ' * width} |"]
    for number in range(first, last + 1):
        mark = ">" if number == message.line else "|"
        text.append(f"{number:>{width}} {mark} {lines[number - 1]}".rstrip())
    text.append(f"{' ' * width} = {message.text}")
    above = [number for number in provenance if number <= message.line]
    if above:
        text.append(f"{' ' * width} = from: {provenance[max(above)]}")
    return "\n".join(text)


def _location(message: messages.Message) -> str:
    return f"{message.file}:{message.line}: " if message.line else ""
