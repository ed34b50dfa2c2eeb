"""The known name that a misspelt one was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable


def distance(a: str, b: str) -> int:
    """Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b` (optimal string alignment)."""
    before: list[int] = []
    above = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row = [i]
        for j, y in enumerate(b, 1):
            cost = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        before, above = above, row
    return above[-1]


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The first of the nearest known names, or None where none is near; case counts for nothing."""
    best: str | None = None
    limit = max(1, len(name) // 3)
    for candidate in known:
        if candidate == name or abs(len(candidate) - len(name)) > limit:
            continue
        steps = distance(name.lower(), candidate.lower())
        if steps < len(candidate) and (steps < limit or (steps == limit and best is None)):
            best, limit = candidate, steps
    return best


def did_you_mean(name: str, known: Iterable[str], *, what: str) -> str:
    """A help text: the nearest known name, or the list of all of them (at most twenty)."""
    names = list(known)
    guess = nearest(name, names)
    if guess is not None:
        return f"did you mean `{guess}`?"
    if not names:
        return f"there are no {what} here"
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return f"known {what}: {', '.join(names[:20])}{more}"
