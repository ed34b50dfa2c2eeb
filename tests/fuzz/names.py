"""Index names as a stranger may choose them: those of variables that kernels have themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from random import Random

from cugen.spec.types import DTYPES

NAMES = (
    *("a", "acc", "b", "base", "block", "c", "column", "count", "d", "e", "element", "end", "f", "first", "fragment"),
    *("h", "i", "i0", "index", "j", "j0", "k", "k0", "lane", "last", "left", "limit", "m", "n", "next", "o", "offset"),
    *("p", "part", "phase", "position", "q", "r", "rank", "row", "s", "slice", "stage", "start", "step", "stop"),
    *("t", "term", "thread", "tile", "total", "u", "v", "value", "vector", "w", "warp", "window", "y0", "z"),
)
_INDEX = re.compile(r"\b[a-z]\w*\b(?! *(\(|\[|\+?=(?!=)))")  # neither a function, an array nor a keyword
_OTHERS = {*DTYPES, "true", "false", "if", "else", "and", "or", "not"}


def renamed(
    statements: Sequence[str], indices: Mapping[str, str], arrays: Iterable[str], random: Random
) -> tuple[list[str], dict[str, str]]:
    """The statements, and the extents of their indices, with another name for each index."""
    used = {name for text in statements for name in re.findall(r"\w+", text)} | {*arrays}
    old = sorted({match[0] for text in statements for match in _INDEX.finditer(text)} - {*arrays} - _OTHERS)
    free = [name for name in NAMES if name not in used.difference(old)]
    new = dict(zip(old, random.sample(free, len(old)), strict=True))
    renamed_statements = [_INDEX.sub(lambda match: new.get(match[0], match[0]), text) for text in statements]
    return renamed_statements, {new[name]: extent for name, extent in indices.items() if name in new}
