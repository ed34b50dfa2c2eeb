"""Spelling suggestions: the known name nearest to a misspelt one."""

from __future__ import annotations

from collections.abc import Iterable

_MIN_PREFIX_LETTERS = 3  # of a name that is a prefix of another one, to be suggested for it


def distance(a: str, b: str) -> int:
    """The edit distance with transpositions of adjacent letters (optimal string alignment)."""
    previous_row: list[int] = []
    row_above = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row = [i]
        for j, y in enumerate(b, 1):
            cost = min(row_above[j] + 1, row[j - 1] + 1, row_above[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                cost = min(cost, previous_row[j - 2] + 1)
            row.append(cost)
        previous_row, row_above = row_above, row
    return row_above[-1]


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The nearest known name, ignoring case, or None if none is within a third of the letters. Ties go to the longest
    common prefix, then to the first."""
    limit = max(1, len(name) // 3)
    candidates: list[tuple[int, int, str]] = []
    for candidate in known:
        if candidate == name or abs(len(candidate) - len(name)) > limit:
            continue
        steps = distance(name.lower(), candidate.lower())
        if steps < len(candidate) and steps <= limit:
            candidates.append((steps, -_common_prefix_length(name.lower(), candidate.lower()), candidate))
    return min(candidates, key=lambda entry: entry[:2])[2] if candidates else None


def _common_prefix_length(a: str, b: str) -> int:
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def did_you_mean(name: str, known: Iterable[str], *, what: str) -> str:
    """A help text: the nearest known name, a prefix match, or the list of all names (at most 20)."""
    names = list(known)
    bare = name.strip("_")  # `__shared__`
    suggestion = bare if bare != name and bare in names else nearest(name, names) or _prefix_match(name, names)
    if suggestion is not None:
        return f"did you mean `{suggestion}`?"
    if not names:
        return f"there are no {what} here"
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return f"known {what}: {', '.join(names[:20])}{more}"


def plural(phrase: str) -> str:
    """The plural of a noun with what follows it: `memory space of a scalar` becomes `memory spaces of a scalar`."""
    noun, of, owner = phrase.partition(" of ")
    if noun.endswith("y") and noun[-2] not in "aeiou":
        noun = f"{noun[:-1]}ie"
    elif noun.endswith(("s", "x", "z", "ch", "sh")):
        noun += "e"
    return f"{noun}s{of}{owner}"


def _prefix_match(name: str, known: Iterable[str]) -> str | None:
    """The first known name that has `name` as a prefix, or is a prefix of it."""
    pairs = ((candidate, min(candidate, name, key=len)) for candidate in known if candidate != name)
    return next(
        (c for c, start in pairs if len(start) >= _MIN_PREFIX_LETTERS and c[: len(start)] == name[: len(start)]), None
    )
