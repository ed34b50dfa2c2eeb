"""Which slow cases of a test run in CI, and which of one that is marked `covering` by default: few, and among them each
value of each of its parameters."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence

CASES = 4  # of one test in CI, at least
MAX_VALUES = 8  # of a parameter, each of which a case has; of a longer list some
GOLDEN_RATIO = (5**0.5 - 1) / 2

Values = frozenset[tuple[Hashable, Hashable]]  # of a case: pairs of a parameter and its value


def chosen(cases: Sequence[Values], met: Iterable[Values] = (), minimum: int = CASES) -> Collection[int]:
    """The numbers of those of `cases` that run, at least so many, where the cases `met` run anyway."""
    # Multiples of the golden ratio are spread evenly, and so is each beginning of this order.
    order = sorted(range(len(cases)), key=lambda number: number * GOLDEN_RATIO % 1)
    missing = _wanted(cases) - frozenset().union(*met)
    taken: dict[int, None] = {}
    while missing:
        best = max(order, key=lambda number: len(cases[number] & missing))
        taken[best] = None
        missing -= cases[best]
    for number in order:
        if len(taken) >= minimum:
            break
        taken[number] = None
    return taken.keys()


def _wanted(cases: Iterable[Values]) -> Values:
    """The values of parameters that have no more than MAX_VALUES."""
    by_parameter: dict[Hashable, set[tuple[Hashable, Hashable]]] = {}
    for case in cases:
        for pair in case:
            by_parameter.setdefault(pair[0], set()).add(pair)
    return frozenset().union(*(pairs for pairs in by_parameter.values() if len(pairs) <= MAX_VALUES))
