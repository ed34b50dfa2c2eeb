"""Text and JSON of `cugen check --diff`: what each access costs before and after, and the totals."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from cugen.analysis.launches.comparison import (
    ADDED,
    BETTER,
    REMOVED,
    SAME,
    UNKNOWN,
    WORSE,
    Comparison,
    LaunchPair,
    Side,
)
from cugen.analysis.launches.sentences import growth_text
from cugen.cli.text.layout import fit, table
from cugen.cli.text.terminal import paint

_COLOURS = {BETTER: "green", WORSE: "yellow"}
_CHANGES = (BETTER, WORSE, ADDED, REMOVED, SAME, UNKNOWN)


def diff_text(comparisons: Sequence[Comparison], *, quiet: bool) -> str:
    """Tables of accesses and totals; with `quiet` only of what is worse."""
    shown = (WORSE,) if quiet else _CHANGES
    return fit("\n\n".join("\n".join(_lines(comparison, shown)) for comparison in comparisons), sys.stdout)


def _lines(comparison: Comparison, shown: Sequence[str]) -> Iterator[str]:
    yield paint(f"{comparison.after} compared with {comparison.before}", "bold", sys.stdout)
    yield from _table([("", key, before, "→", after) for key, before, after in comparison.settings], wrap=4)
    for launch in comparison.launches:
        rows = list(_rows(launch, shown))
        if len(comparison.launches) > 1:
            yield f"  {launch.before or 'no launch'} → {launch.after or 'no launch'}"
        yield from _table(rows, drop=(7, 5, 6))
    figures = [figure for figure in comparison.figures if figure.change in shown]
    yield from _table([(f.change, f.name, f.before, "→", f.after, growth_text(f.growth)) for f in figures], drop=(5,))
    counts = [f"{comparison.count(change)} {change}" for change in _CHANGES if comparison.count(change)]
    worse = [figure.name for figure in comparison.figures if figure.change == WORSE]
    totals = f"worse in total: {', '.join(worse)}" if worse else "no total is worse"
    yield f"accesses: {', '.join(counts) or 'none'}; {totals}"


def _rows(launch: LaunchPair, shown: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for pair in launch.pairs:
        if pair.change in shown:
            texts = ", ".join((pair.after if pair.after.accesses else pair.before).texts)
            what = f"{pair.array}: {pair.space} {pair.role}"
            growth = growth_text(pair.growth)
            yield pair.change, what, _cost(pair.before), "→", _cost(pair.after), pair.unit, growth, texts


def _cost(side: Side) -> str:
    if not side.accesses:
        return "-"
    return "unknown" if side.cost is None else f"{side.cost:,}"


def _table(rows: Sequence[tuple[str, ...]], *, wrap: int = 1, drop: Sequence[int] = ()) -> Iterator[str]:
    if not rows:
        return
    for row, text in zip(rows, table(rows, sys.stdout, wrap=wrap, drop=drop), strict=True):
        colour = _COLOURS.get(row[0])
        yield text.replace(row[0], paint(row[0], colour, sys.stdout), 1) if colour else text


def diff_json(comparisons: Sequence[Comparison]) -> str:
    """JSON object with `passed`, whether nothing is worse, and `comparisons`."""
    content = {
        "passed": not any(comparison.is_worse for comparison in comparisons),
        "comparisons": [_comparison(comparison) for comparison in comparisons],
    }
    return json.dumps(content, indent=2)


def _comparison(comparison: Comparison) -> dict[str, Any]:
    return {
        "before": comparison.before,
        "after": comparison.after,
        "passed": not comparison.is_worse,
        "settings": [{"key": key, "before": old, "after": new} for key, old, new in comparison.settings],
        "totals": [asdict(figure) for figure in comparison.figures],
        "launches": [
            {
                "before": launch.before or None,
                "after": launch.after or None,
                "accesses": [
                    {
                        "array": pair.array,
                        "space": pair.space,
                        "role": pair.role,
                        "unit": pair.unit,
                        "change": pair.change,
                        "before": _side(pair.before),
                        "after": _side(pair.after),
                    }
                    for pair in launch.pairs
                ],
            }
            for launch in comparison.launches
        ],
    }


def _side(side: Side) -> dict[str, Any] | None:
    if not side.accesses:
        return None
    return {"cost": side.cost, "ideal": side.ideal, "accesses": [access.text for access in side.accesses]}
