"""Renders the memory-bound kernels of `docs/measurements.md` and their chart, from the files of `memory_bound.py` and
`limits.py`.

python -m benchmarks.memory.memory_bound_page [--check]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.memory import limits_page
from benchmarks.timing.page_parts import (
    Row,
    contenders,
    goal_text,
    goals_met,
    heading,
    mean_and_worst,
    replaced,
    share,
    us,
    write,
)
from cugen.bench.chart import Bars, chart

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results" / "memory_bound_h200.json"
LIMITS = ROOT / "docs" / "results" / "limits_h200.json"
CHART = ROOT / "docs" / "results" / "memory_bound_h200.svg"
PAGE = ROOT / "docs" / "measurements.md"
PEERS = ("torch", "torch.compile", "cupy")


def part(content: Row) -> str:
    """Text between the page's marks."""
    rows = content["cases"]
    groups = list(dict.fromkeys(row["group"] for row in rows))
    lines = [
        heading(content),
        "",
        *_summary(rows, groups),
    ]
    for group in groups:
        lines += ["", f"### {group[0].upper()}{group[1:]}", "", *_table([row for row in rows if row["group"] == group])]
    launch_bound = [row for row in rows if "graph" in row["regimes"]]
    lines += ["", "### Launch-bound sizes", "", *_short(launch_bound)]
    return "\n".join(lines) + "\n"


def limits() -> Row | None:
    """Counters of `limits.py`, if they exist."""
    return json.loads(LIMITS.read_text()) if LIMITS.exists() else None


def picture(content: Row) -> str:
    """Chart of the cold-cache shares of all cases with a goal."""
    bars = []
    for row in content["cases"]:
        timed = contenders(row, "cold")
        if row["goals"] and timed:
            shares = [(name, timed[name]["share_of_ceiling"]) for name in ("cugen", *PEERS) if name in timed]
            bars.append(Bars(row["name"], tuple(shares)))
    return chart(f"Memory-bound kernels on {content['device']}, cold caches", bars)


def _summary(rows: Sequence[Row], groups: Sequence[str]) -> Iterator[str]:
    """Table of each group's geometric means and worst figures, over its cases with goals."""
    yield (
        "| | cases with goals | goals met | share of ceiling | worst | torch ÷ ours | worst "
        "| torch.compile ÷ ours | worst |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for group in [*groups, "all"]:
        group_rows = [row for row in rows if row["goals"] and group in ("all", row["group"])]
        cells = [f"{len(group_rows)}", goals_met(group_rows)]
        cells += mean_and_worst(group_rows, lambda timed: timed["cugen"]["share_of_ceiling"])
        for peer in ("torch", "torch.compile"):
            cells += mean_and_worst(
                group_rows, lambda timed, peer=peer: timed[peer]["ratio"] if peer in timed else None
            )
        yield f"| {group} | {' | '.join(cells)} |"


def _table(rows: Sequence[Row]) -> Iterator[str]:
    peers = [peer for peer in PEERS if any(peer in contenders(row, "cold") for row in rows)]
    heads = "".join(f" {peer} ÷ ours, cold (warm) |" for peer in peers)
    yield f"| case | ours, cold: median (p10–p90) µs | warm µs | GB/s | share of ceiling |{heads} goals |"
    yield "|---|---|---|---|---|" + "---|" * (len(peers) + 1)
    for row in rows:
        cold, warm = contenders(row, "cold"), contenders(row, "warm")
        if not cold:
            yield f"| {row['name']} | failed: {'; '.join(row['messages'])} |" + " |" * (len(peers) + 4)
            continue
        ours = cold["cugen"]
        cells = [
            row["name"],
            f"{us(ours['median_us'])} ({us(ours['p10_us'])}–{us(ours['p90_us'])})",
            us(warm["cugen"]["median_us"]),
            f"{ours['gb_per_s']:.0f}",
            f"{share(ours['share_of_ceiling'])} of {row['ceiling']}",
        ]
        cells += [f"{cold[p]['ratio']:.2f} ({warm[p]['ratio']:.2f})" if p in cold else _absent(row, p) for p in peers]
        cells.append("; ".join(goal_text(row, goal) for goal in row["goals"]) or "–")
        yield f"| {' | '.join(cells)} |"


def _short(rows: Sequence[Row]) -> Iterator[str]:
    yield "| case | ours: cold, warm, in a graph µs | copy: in a graph µs | torch ÷ ours: cold, warm, in a graph |"
    yield "|---|---|---|---|"
    for row in rows:
        graph = contenders(row, "graph")
        if "cugen" not in graph:
            continue
        regimes = [contenders(row, regime) for regime in ("cold", "warm", "graph")]
        ours = ", ".join(us(timed["cugen"]["median_us"]) for timed in regimes)
        torch = ", ".join(f"{timed['torch']['ratio']:.2f}" if "torch" in timed else "–" for timed in regimes)
        copy = us(graph["copy"]["median_us"]) if "copy" in graph else "–"
        yield f"| {row['name']} | {ours} | {copy} | {torch} |"


def _absent(row: Row, peer: str) -> str:
    reasons = [peer_row["absent"] for peer_row in row["peers"] if peer_row["name"] == peer]
    return f"none: {reasons[0]}" if reasons and reasons[0] else "–"


def main() -> int:
    content = json.loads(RESULTS.read_text())
    page = replaced(PAGE.read_text(), "memory bound", "end", part(content))
    page = replaced(page, "limits", "end limits", limits_page.part(content, limits()))
    return write({PAGE: page, CHART: picture(content)}, __doc__)


if __name__ == "__main__":
    sys.exit(main())
