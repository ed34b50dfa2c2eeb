"""Message templates as C++ expressions of type std::string."""

from __future__ import annotations

import re
from collections.abc import Mapping

_LITERAL_CHARACTERS = 72  # keeps a literal on one line


def terms(sentence: str, values: Mapping[str, str]) -> list[str]:
    """C++ terms whose sum is the message: literals, and the expression of each placeholder."""
    result = []
    for number, part in enumerate(re.split(r"[{}]", sentence)):
        if number % 2:
            result.append(values[part])
        elif part:
            result += map(quoted, _pieces(part))
    result[0] = f"std::string({result[0]})"
    return result


def _pieces(text: str) -> list[str]:
    """The text split after spaces into pieces that fit a line."""
    pieces = []
    while len(text) > _LITERAL_CHARACTERS and " " in text[:_LITERAL_CHARACTERS]:
        cut = text.rindex(" ", 0, _LITERAL_CHARACTERS) + 1
        pieces.append(text[:cut])
        text = text[cut:]
    return [*pieces, text]


def quoted(text: str) -> str:
    """A C string literal. `text` has no line breaks."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
