"""Renders `docs/performance.md` and its chart from the file that `memory_bound.py` wrote."""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from cugen.bench.chart import Bars, chart

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results" / "memory_bound_h200.json"
CHART = ROOT / "docs" / "results" / "memory_bound_h200.svg"
PAGE = ROOT / "docs" / "performance.md"
PEERS = ("torch", "torch.compile", "cupy")
CUBLAS = ("torch", "cupy", "cublasLt")  # what calls it

Row = dict[str, Any]


def part(content: Row) -> str:
    """What stands between the page's marks."""
    rows = content["cases"]
    groups = list(dict.fromkeys(row["group"] for row in rows))
    lines = [
        f"{content['device']}, driver {_driver(content['driver'])}, Python {content['python']}, "
        f"{', '.join(_versions(rows))}; {content['date']}; cugen {content['cugen']}; `{content['command']}`",
        "",
        *_summary(rows, groups),
    ]
    for group in groups:
        lines += ["", f"### {group[0].upper()}{group[1:]}", "", *_table([row for row in rows if row["group"] == group])]
    launch_bound = [row for row in rows if "graph" in row["regimes"]]
    lines += ["", "### Launch-bound sizes", "", *_short(launch_bound)]
    return "\n".join(lines) + "\n"


def picture(content: Row) -> str:
    """Cold shares of all cases that have a goal."""
    bars = []
    for row in content["cases"]:
        timed = _timed(row, "cold")
        if row["goals"] and timed:
            shares = [(name, timed[name]["share_of_ceiling"]) for name in ("cugen", *PEERS) if name in timed]
            bars.append(Bars(row["name"], tuple(shares)))
    return chart(f"Memory-bound kernels on {content['device']}, cold caches", bars)


def verdict(row: Row, goal: Row) -> tuple[float | None, str]:
    """The figure that a goal is about, and whether it was reached."""
    timed = _timed(row, goal.get("regime", "cold"))
    if goal["against"] == "ceiling":
        figure = timed["cugen"]["share_of_ceiling"] if timed else None
    else:
        rivals = CUBLAS if goal["against"] == "cublas" else (goal["against"],)
        figure = min((timed[rival]["ratio"] for rival in rivals if rival in timed), default=None)
    if figure is None:
        return None, "not measured"
    if goal["moonshot"] is not None and figure >= goal["moonshot"]:
        return figure, "moonshot"
    if goal["must"] is None:
        return figure, "short of the moonshot"
    return figure, "met" if figure >= goal["must"] else "missed"


def _timed(row: Row, regime: str) -> dict[str, Row]:
    return {timed["name"]: timed for timed in row["regimes"].get(regime, [])}


def _summary(rows: Sequence[Row], groups: Sequence[str]) -> Iterator[str]:
    """For each group the geometric means and the worst figures, over the cases that have goals."""
    yield (
        "| | cases with goals | goals met | share of ceiling | worst | torch ÷ ours | worst "
        "| torch.compile ÷ ours | worst |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for group in [*groups, "all"]:
        own = [row for row in rows if row["goals"] and group in ("all", row["group"])]
        musts = [verdict(row, goal)[1] for row in own for goal in row["goals"] if goal["must"] is not None]
        met = sum(found in ("met", "moonshot") for found in musts)
        cells = [f"{len(own)}", f"{met} of {len(musts)}"]
        cells += _mean_and_worst(own, lambda timed: timed["cugen"]["share_of_ceiling"])
        for peer in ("torch", "torch.compile"):
            cells += _mean_and_worst(own, lambda timed, peer=peer: timed[peer]["ratio"] if peer in timed else None)
        yield f"| {group} | {' | '.join(cells)} |"


def _mean_and_worst(rows: Iterable[Row], figure: Callable[[dict[str, Row]], float | None]) -> list[str]:
    timed = [(row["name"], figure(found)) for row in rows if (found := _timed(row, "cold"))]
    known = [(value, name) for name, value in timed if value is not None]
    if not known:
        return ["–", "–"]
    mean = math.exp(statistics.fmean(math.log(value) for value, _ in known))
    worst, name = min(known)
    return [_share(mean), f"{_share(worst)} ({name})"]


def _table(rows: Sequence[Row]) -> Iterator[str]:
    peers = [peer for peer in PEERS if any(peer in _timed(row, "cold") for row in rows)]
    heads = "".join(f" {peer} ÷ ours, cold (warm) |" for peer in peers)
    yield f"| case | ours, cold: median (p10–p90) µs | warm µs | GB/s | share of ceiling |{heads} goals |"
    yield "|---|---|---|---|---|" + "---|" * (len(peers) + 1)
    for row in rows:
        cold, warm = _timed(row, "cold"), _timed(row, "warm")
        if not cold:
            yield f"| {row['name']} | failed: {'; '.join(row['messages'])} |" + " |" * (len(peers) + 4)
            continue
        ours = cold["cugen"]
        cells = [
            row["name"],
            f"{_us(ours['median_us'])} ({_us(ours['p10_us'])}–{_us(ours['p90_us'])})",
            _us(warm["cugen"]["median_us"]),
            f"{ours['gb_per_s']:.0f}",
            f"{_share(ours['share_of_ceiling'])} of {row['ceiling']}",
        ]
        cells += [f"{cold[p]['ratio']:.2f} ({warm[p]['ratio']:.2f})" if p in cold else _absent(row, p) for p in peers]
        cells.append("; ".join(_goal(row, goal) for goal in row["goals"]) or "–")
        yield f"| {' | '.join(cells)} |"


def _short(rows: Sequence[Row]) -> Iterator[str]:
    yield "| case | ours: cold, warm, in a graph µs | copy: in a graph µs | torch ÷ ours: cold, warm, in a graph |"
    yield "|---|---|---|---|"
    for row in rows:
        graph = _timed(row, "graph")
        if "cugen" not in graph:
            continue
        regimes = [_timed(row, regime) for regime in ("cold", "warm", "graph")]
        ours = ", ".join(_us(timed["cugen"]["median_us"]) for timed in regimes)
        torch = ", ".join(f"{timed['torch']['ratio']:.2f}" if "torch" in timed else "–" for timed in regimes)
        copy = _us(graph["copy"]["median_us"]) if "copy" in graph else "–"
        yield f"| {row['name']} | {ours} | {copy} | {torch} |"


def _goal(row: Row, goal: Row) -> str:
    _, found = verdict(row, goal)
    wanted = goal["must"] if goal["must"] is not None else goal["moonshot"]
    what = f"{wanted:.2f} of the {row['ceiling']}" if goal["against"] == "ceiling" else f"{wanted:g}× {goal['against']}"
    return f"{what}: **{found}**" if found == "missed" else f"{what}: {found}"


def _absent(row: Row, peer: str) -> str:
    reasons = [found["absent"] for found in row["peers"] if found["name"] == peer]
    return f"none: {reasons[0]}" if reasons and reasons[0] else "–"


def _versions(rows: Sequence[Row]) -> list[str]:
    known = {peer["name"]: peer["version"] for row in rows for peer in row["peers"] if peer["version"]}
    return [f"{name} {known[name]}" for name in ("torch", "cupy") if name in known]


def _driver(version: int) -> str:
    return f"for CUDA {version // 1000}.{version % 1000 // 10}"


def _share(value: float) -> str:
    """Never rounded up: 0.9799 isn't 0.98."""
    return f"{math.floor(value * 1000) / 1000:.3f}"


def _us(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:.1f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where a file is stale")
    options = parser.parse_args()
    content = json.loads(RESULTS.read_text())
    before, found, rest = PAGE.read_text().partition("<!-- memory bound -->\n")
    _, end, after = rest.partition("<!-- end -->")
    files = {PAGE: f"{before}{found}{part(content)}{end}{after}", CHART: picture(content)}
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    if not options.check:
        for path in stale:
            path.write_text(files[path])
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
