"""Parts of pages with figures: heading, cells, verdicts on goals, text between marks."""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

CHOICE = ("torch", "cupy")  # cuBLAS chooses the algorithm
CUBLAS = (*CHOICE, "cublasLt")  # cublasLt: the fastest of all algorithms

Row = dict[str, Any]


def heading(content: Row) -> str:
    """Line with the machine, libraries, date and command."""
    return (
        f"{content['device']}, driver {_driver(content['driver'])}, Python {content['python']}, "
        f"{', '.join(_versions(content['cases']))}; {content['date']}; cugen {content['cugen']}; `{content['command']}`"
    )


def contenders(row: Row, regime: str) -> dict[str, Row]:
    """Contenders by name; empty if the case failed or lacks the regime."""
    return {timed["name"]: timed for timed in row["regimes"].get(regime, [])}


def cublas_ratio(timed: Mapping[str, Row], rivals: Iterable[str] = CUBLAS) -> float | None:
    """Time of the fastest peer that calls cuBLAS, over cugen's."""
    return min((timed[rival]["ratio"] for rival in rivals if rival in timed), default=None)


def verdict(row: Row, goal: Row, rivals: Iterable[str] = CUBLAS) -> tuple[float | None, str]:
    """Figure of a goal, and its verdict."""
    timed = contenders(row, goal.get("regime", "cold"))
    if goal["against"] == "ceiling":
        figure = timed["cugen"]["share_of_ceiling"] if timed else None
    elif goal["against"] == "cublas":
        figure = cublas_ratio(timed, rivals)
    else:
        figure = timed[goal["against"]]["ratio"] if goal["against"] in timed else None
    if figure is None:
        return None, "not measured"
    if goal["moonshot"] is not None and figure >= goal["moonshot"]:
        return figure, "moonshot"
    if goal["must"] is None:
        return figure, "short of the moonshot"
    return figure, "met" if figure >= goal["must"] else "missed"


def goals_met(rows: Iterable[Row], rivals: Iterable[str] = CUBLAS) -> str:
    """Number of required goals that are met."""
    musts = [verdict(row, goal, rivals)[1] for row in rows for goal in row["goals"] if goal["must"] is not None]
    return f"{sum(judgement in ('met', 'moonshot') for judgement in musts)} of {len(musts)}"


def goal_text(row: Row, goal: Row) -> str:
    """A goal with its verdict."""
    _, judgement = verdict(row, goal)
    wanted = goal["must"] if goal["must"] is not None else goal["moonshot"]
    what = f"{wanted:.2f} of the {row['ceiling']}" if goal["against"] == "ceiling" else f"{wanted:g}× {goal['against']}"
    if (regime := goal.get("regime", "cold")) != "cold":
        what += f", {regime}"
    return f"{what}: **{judgement}**" if judgement == "missed" else f"{what}: {judgement}"


def mean_and_worst(
    rows: Iterable[Row], figure: Callable[[dict[str, Row]], float | None], regime: str = "cold"
) -> list[str]:
    """Two cells: geometric mean and minimum of a figure, the latter with its case."""
    timed = [(row["name"], figure(timings)) for row in rows if (timings := contenders(row, regime))]
    known = [(value, name) for name, value in timed if value is not None]
    if not known:
        return ["–", "–"]
    mean = statistics.geometric_mean(value for value, _ in known)
    worst, name = min(known)
    return [share(mean), f"{share(worst)} ({name})"]


def share(value: float) -> str:
    """Share with three digits, rounded down: 0.9799 isn't 0.98."""
    return f"{math.floor(value * 1000) / 1000:.3f}"


def us(value: float) -> str:
    """Microseconds."""
    return f"{value:.2f}" if value < 100 else f"{value:.1f}"


def replaced(page: str, begin: str, end: str, text: str) -> str:
    """Replaces the text between two marks, which are comments on separate lines."""
    before, mark, rest_of_page = page.partition(f"<!-- {begin} -->\n")
    _, closing, after = rest_of_page.partition(f"<!-- {end} -->")
    if not closing:
        raise ValueError(f"no {begin} … {end}")
    return f"{before}{mark}{text}{closing}{after}"


def write(files: Mapping[Path, str], doc: str | None) -> int:
    """Command line of a page: writes stale files, or lists them with `--check`."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is stale")
    options = parser.parse_args()
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    if not options.check:
        for path in stale:
            path.write_text(files[path])
    return 1 if options.check and stale else 0


def _versions(rows: Iterable[Row]) -> list[str]:
    known = {peer["name"]: peer["version"] for row in rows for peer in row["peers"] if peer["version"]}
    return [f"{name} {known[name]}" for name in ("torch", "cupy") if name in known]


def _driver(version: int) -> str:
    return f"for CUDA {version // 1000}.{version % 1000 // 10}"
