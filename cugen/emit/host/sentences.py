"""Sentences with places for values, as C++ expressions of type std::string."""

from __future__ import annotations

import re
from collections.abc import Mapping

_WIDTH = 72


def terms(sentence: str, values: Mapping[str, str]) -> list[str]:
    """C++ terms whose sum is the sentence: literals, and the expression for each place."""
    found = []
    for number, part in enumerate(re.split(r"[{}]", sentence)):
        if number % 2:
            found.append(values[part])
        elif part:
            found += map(quoted, _pieces(part))
    found[0] = f"std::string({found[0]})"
    return found


def _pieces(text: str) -> list[str]:
    """The text cut behind blanks, so that each piece fits a line."""
    pieces = []
    while len(text) > _WIDTH and " " in text[:_WIDTH]:
        cut = text.rindex(" ", 0, _WIDTH) + 1
        pieces.append(text[:cut])
        text = text[cut:]
    return [*pieces, text]


def quoted(text: str) -> str:
    """A literal of C. The names, sizes and sentences that become one hold no line breaks."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
