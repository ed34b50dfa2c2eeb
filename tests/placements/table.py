"""The committed table of requests that give no plan as good as without them."""

from __future__ import annotations

import csv
from collections.abc import Mapping

from .outcomes import ROOT, Outcome, Requested

TABLE = ROOT / "tests" / "data" / "placements.csv"
_HEADINGS = ("kernel", "array", "placement", "kind", "figure")


def read() -> dict[Requested, Outcome]:
    with TABLE.open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    return {Requested(*row[:3]): Outcome(*row[3:]) for row in rows}


def write(outcomes: Mapping[Requested, Outcome]) -> None:
    with TABLE.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_HEADINGS)
        for request, found in outcomes.items():
            writer.writerow((request.kernel, request.array, request.placement, found.kind, found.figure))
