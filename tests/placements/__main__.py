"""Requests every placement of every input of the gallery, and writes those that are no plan as good as without it:
`python -m tests.placements` rewrites tests/data/placements.csv."""

from __future__ import annotations

from collections import Counter

from .outcomes import HONOURED, gallery, outcome, requested
from .table import write


def main() -> None:
    outcomes = {request: outcome(request) for kernel in gallery() for request in requested(kernel)}
    write({request: found for request, found in outcomes.items() if found.kind != HONOURED})
    counts = Counter((request.placement, found.kind) for request, found in outcomes.items())
    for (placement, kind), count in sorted(counts.items()):
        print(f"{placement:16}{kind:16}{count:5}")
    for kind, count in Counter(found.kind for found in outcomes.values()).most_common():
        print(f"{kind:16}{count:5}  {count / len(outcomes):.1%}")


main()
