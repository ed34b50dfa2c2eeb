"""Shared and global variables of a .cu, parsed for the harness.

The .cu is compiled unchanged. `__shared__` has two meanings, a static array or the declaration of dynamic shared
memory, which a macro can distinguish by its line only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_EXTERN = re.compile(r"\bextern\s+__shared__\b([^;]*?)(\w+)\s*\[\s*\]\s*;")
_SHARED = re.compile(r"\b__shared__\b([^;=()]|__align__\s*\(\s*\d+\s*\)|alignas\s*\(\s*\w+\s*\))*;")
_ARRAY_NAME = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*(?=[,;])")
_ATTRIBUTE = r"(?:__align__|alignas)\s*\(\s*\w+\s*\)"
_GLOBAL = re.compile(
    rf"^[ \t]*(?:static\s+)?(?:const\s+)?(?:__constant__|__device__)\s+(?:(?:[\w:]+|{_ATTRIBUTE}|\*)\s+)+"
    r"(\w+)\s*(?:\[[^\]]*\]\s*)*(?=[=;{])",
    re.MULTILINE,
)
_LAUNCH_BOUNDS = re.compile(r"\b__launch_bounds__\s*\(\s*(\d+)[^)]*\)(?:\s+\w+\s*\([^()]*\))*\s+(\w+)\s*\(")


@dataclass(frozen=True, slots=True)
class LaunchBounds:
    """The largest number of threads per block that a kernel may be launched with, and the line that says so."""

    threads: int
    line: int


@dataclass(frozen=True, slots=True)
class Declarations:
    """Names in the order of the text. `dynamic_lines` are the 1-based lines of `extern __shared__`."""

    lines: int
    dynamic_lines: frozenset[int]
    dynamic: tuple[str, ...]
    static: tuple[str, ...]
    globals: tuple[str, ...]  # `__constant__` and `__device__` variables
    launch_bounds: Mapping[str, LaunchBounds]  # by kernel, where they are a literal


def declarations(source: str) -> Declarations:
    """The shared and global variables that `source` declares."""
    text = _COMMENT.sub(lambda comment: re.sub(r"[^\n]", " ", comment.group()), source)
    externs = list(_EXTERN.finditer(text))
    inside = [(match.start(), match.end()) for match in externs]
    static = [
        name
        for match in _SHARED.finditer(text)
        if not any(start <= match.start() < end for start, end in inside)
        for name in _ARRAY_NAME.findall(match.group())
    ]
    return Declarations(
        lines=text.count("\n") + 1,
        dynamic_lines=frozenset(text.count("\n", 0, text.index("__shared__", m.start())) + 1 for m in externs),
        dynamic=_unique(m.group(2) for m in externs),
        static=_unique(static),
        globals=_unique(_GLOBAL.findall(text)),
        launch_bounds={
            m.group(2): LaunchBounds(int(m.group(1)), text.count("\n", 0, m.start()) + 1)
            for m in _LAUNCH_BOUNDS.finditer(text)
        },
    )


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
