"""A refused source, explained: each error with the lines of the .cu round it and where they came from."""

from __future__ import annotations

from collections.abc import Mapping

from cugen.toolchain import messages
from cugen.toolchain.errors import CompileError

_AROUND = 2  # lines quoted above and below an error
_SHOWN = 5  # later errors mostly follow from the first ones


def explain_failure(error: CompileError, source: str, provenance: Mapping[int, str] | None = None) -> str:
    """The report for a person. `source` is the text that was compiled; `provenance` maps its lines (1-based) to what
    made them, such as "templates/tiled.cu.j2:41, key arrays.A.memory". A line without an entry takes that of the
    nearest one above."""
    found = messages.errors(error.output)
    placed = [message for message in found if message.line and message.file.endswith(error.source_name)]
    parts = [f"error[{error.code}]: {error.reason}"]
    for message in placed[:_SHOWN]:
        parts.append(_quoted(message, source.splitlines(), provenance or {}))
    if len(placed) > _SHOWN:
        parts.append(f"  … and {len(placed) - _SHOWN} more")
    elsewhere = [message for message in found if message not in placed]
    parts += [f"  = {_place(message)}{message.text}" for message in elsewhere[:_SHOWN]]
    if not found and error.output.strip():
        parts.append(error.output.rstrip())
    parts.append(f"  = note: the command was: {' '.join(error.command)}")
    parts.append(f"  = explain: cugen explain {error.code}")
    return "\n".join(parts)


def _quoted(message: messages.Message, lines: list[str], provenance: Mapping[int, str]) -> str:
    first = max(1, message.line - _AROUND)
    last = min(len(lines), message.line + _AROUND)
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


def _place(message: messages.Message) -> str:
    return f"{message.file}:{message.line}: " if message.line else ""
