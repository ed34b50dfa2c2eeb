"""The known name that a misspelt one was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable

_SHARED_START = 3  # letters from which a name that begins another is taken for it


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
    """The nearest known name, or None where none is near; case counts for nothing. Of several, the one that shares
    most of its start with `name`, and of those the first."""
    limit = max(1, len(name) // 3)
    found: list[tuple[int, int, str]] = []
    for candidate in known:
        if candidate == name or abs(len(candidate) - len(name)) > limit:
            continue
        steps = distance(name.lower(), candidate.lower())
        if steps < len(candidate) and steps <= limit:
            found.append((steps, -_shared_start(name.lower(), candidate.lower()), candidate))
    return min(found, key=lambda entry: entry[:2])[2] if found else None


def _shared_start(a: str, b: str) -> int:
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def did_you_mean(name: str, known: Iterable[str], *, what: str) -> str:
    """A help text: the nearest known name, one that begins the other, or the list of all (at most twenty)."""
    names = list(known)
    guess = nearest(name, names) or _begun(name, names)
    if guess is not None:
        return f"did you mean `{guess}`?"
    if not names:
        return f"there are no {what} here"
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return f"known {what}: {', '.join(names[:20])}{more}"


def _begun(name: str, known: Iterable[str]) -> str | None:
    """The first known name that begins with `name`, or that `name` begins with."""
    pairs = ((candidate, min(candidate, name, key=len)) for candidate in known if candidate != name)
    return next(
        (c for c, start in pairs if len(start) >= _SHARED_START and c[: len(start)] == name[: len(start)]), None
    )
