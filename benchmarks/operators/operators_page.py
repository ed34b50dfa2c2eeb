"""Renders the section of `docs/measurements.md` on operators from the file of `operators.py`.

python -m benchmarks.operators.operators_page [--check]
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.operators.operator_cases import operators
from benchmarks.timing.page_parts import Row, contenders, heading, mean_and_worst, replaced, share, us, write

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results" / "operators_h200.json"
PAGE = ROOT / "docs" / "measurements.md"
PEERS = ("torch", "cudnn.benchmark", "torch.compile")
SLOW = 0.5  # of the fastest peer's speed


def part(content: Row) -> str:
    """Text between the page's marks."""
    rows = content["cases"]
    groups = list(dict.fromkeys(row["group"] for row in rows))
    lines = [heading(content), "", _extent(rows), "", *_summary(rows, groups)]
    for group in groups:
        lines += ["", f"### Operators: {group}", "", *_table([row for row in rows if row["group"] == group])]
    return "\n".join(lines) + "\n"


def _extent(rows: Sequence[Row]) -> str:
    """How many operators of the list the file has, by date, and by class how many are left."""
    listed, measured = operators(), {row["name"] for row in rows}
    left = Counter(operator.group for operator in listed if operator.name not in measured)
    classes = ", ".join(f"{group} ({count})" for group, count in left.items())
    dates = Counter(row["date"] for row in rows)
    measured_on = ", ".join(f"{count} on {date}" for date, count in sorted(dates.items()))
    return f"{len(rows)} of {len(listed)} operators ({measured_on}){f'; not measured yet: {classes}' if left else ''}."


def fastest(timed: dict[str, Row]) -> float | None:
    """Time of the fastest peer over cugen's."""
    return min((timed[peer]["ratio"] for peer in PEERS if peer in timed), default=None)


def _summary(rows: Sequence[Row], groups: Sequence[str]) -> Iterator[str]:
    heads = "".join(f" {peer} ÷ ours | worst |" for peer in ("fastest peer", *PEERS))
    yield f"| | cases | failed | slower than the fastest peer | at less than half of its speed |{heads}"
    yield "|---|---|---|---|---|" + "---|" * (2 * len(PEERS) + 2)
    for group in [*groups, "all"]:
        of_group = [row for row in rows if group in ("all", row["group"])]
        ratios = [ratio for row in of_group if (ratio := fastest(contenders(row, "cold"))) is not None]
        cells = [len(of_group), sum(not row["passed"] for row in of_group)]
        cells += [sum(ratio < 1 for ratio in ratios), sum(ratio < SLOW for ratio in ratios)]
        texts = [*map(str, cells), *mean_and_worst(of_group, fastest)]
        for peer in PEERS:
            texts += mean_and_worst(of_group, lambda timed, peer=peer: timed[peer]["ratio"] if peer in timed else None)
        yield f"| {group} | {' | '.join(texts)} |"


def _table(rows: Sequence[Row]) -> Iterator[str]:
    peers = [peer for peer in PEERS if any(peer in contenders(row, "cold") for row in rows)]
    heads = "".join(f" {peer} ÷ ours, cold (warm) |" for peer in peers)
    yield f"| operator | families | ours, cold µs | warm µs |{heads}"
    yield "|---|---|---|---|" + "---|" * len(peers)
    for row in rows:
        cold, warm = contenders(row, "cold"), contenders(row, "warm")
        if not row["passed"] or not cold:
            yield f"| {row['name']} | failed: {'; '.join(row['messages'])} |" + " |" * (len(peers) + 2)
            continue
        cells = [row["name"], "+".join(row["families"])]
        cells += [us(timed["cugen"]["median_us"]) for timed in (cold, warm)]
        cells += [_ratio(row, cold, warm, peer) for peer in peers]
        yield f"| {' | '.join(cells)} |"


def _ratio(row: Row, cold: dict[str, Row], warm: dict[str, Row], peer: str) -> str:
    if peer in cold:
        return f"{share(cold[peer]['ratio'])} ({share(warm[peer]['ratio'])})"
    reasons = [entry["absent"] for entry in row["peers"] if entry["name"] == peer]
    return f"none: {reasons[0]}" if reasons and reasons[0] else "–"


def main() -> int:
    content = json.loads(RESULTS.read_text())
    return write({PAGE: replaced(PAGE.read_text(), "operators", "end operators", part(content))}, __doc__)


if __name__ == "__main__":
    sys.exit(main())
