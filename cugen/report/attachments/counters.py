"""Counters of a GPU beside the analysis: of the file that `benchmarks/machine/counters.py compare DIR FILE` writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cugen.report.page import Entry, Page


class UnreadableCounters(ValueError):
    """A file that isn't one of counters."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A figure predicted for the compiled code, and counted; None where it is unknown, for a `reason`."""

    name: str
    predicted: int | None
    counted: int | None
    reason: str

    @property
    def is_equal(self) -> bool | None:
        return None if None in (self.predicted, self.counted) else self.predicted == self.counted


@dataclass(frozen=True, slots=True)
class AccessCounters:
    """Counters of an access. `changes`: what the compiler made of it."""

    figures: tuple[Counted, ...]
    instructions: int
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LaunchCounters:
    """Counters of a launch by metric; `other_plan` if its accesses aren't those of the page, which then have none."""

    kernel: str
    metrics: tuple[Counted, ...]
    other_plan: bool


@dataclass(frozen=True)
class Counters:
    """Counters of a page's launches, and of its accesses by their numbers."""

    device: str
    date: str
    launches: tuple[LaunchCounters, ...]
    accesses: Mapping[int, AccessCounters]


def read(text: str) -> Mapping[str, Any]:
    """The content of a file of counters. UnreadableCounters for another."""
    try:
        content = json.loads(text)
        known = {str(launch["kernel"]) for launch in content["kernels"]}
    except (ValueError, TypeError, KeyError) as error:
        raise UnreadableCounters("it isn't a file that `benchmarks/machine/counters.py compare` writes") from error
    if not known:
        raise UnreadableCounters("it has no kernels")
    return {**content, "kernels": content["kernels"]}


def counters_of(page: Page, content: Mapping[str, Any]) -> Counters | None:
    """The counters of a page; None if the file has none of its launches. UnreadableCounters for a damaged file."""
    rows = {launch["kernel"]: launch for launch in content["kernels"]}
    accesses: dict[int, AccessCounters] = {}
    launches = []
    try:
        for launch in page.launches:
            row = rows.get(launch.planned.name)
            if row is None:
                continue
            matched = _matched(launch.entries, row["accesses"])
            launches.append(
                LaunchCounters(
                    launch.planned.name,
                    tuple(_counted(name, figure) for name, figure in row["counters"].items()),
                    matched is None,
                )
            )
            accesses |= matched or {}
        made = Counters(str(content["device"]), str(content["date"]), tuple(launches), accesses)
    except (KeyError, TypeError, AttributeError) as error:
        raise UnreadableCounters(f"its entry of {page.kernel.name} lacks {error}") from error
    return made if launches else None


def _matched(entries: tuple[Entry, ...], rows: list[dict[str, Any]]) -> dict[int, AccessCounters] | None:
    """The rows of the accesses, by order among those to one array; None if they are of another plan. Those of
    constants, TMA and wgmma have no rows."""
    pending: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        report = entry.report
        if report.space != "constant" and report.access.kind not in ("tensor_load", "tensor_store", "operand"):
            space = "generic" if report.access.rank is not None else report.space  # distributed shared memory
            key = (report.access.array.symbol, f"{space} {report.access.kind}")
            pending.setdefault(key, []).append(entry)
    if sum(map(len, pending.values())) != len(rows):
        return None
    matched = {}
    for row in rows:
        candidates = pending.get((row["array"], row["kind"]))
        if not candidates or not _agree(candidates[0], row["as written"]):
            return None
        entry = candidates.pop(0)
        compiled = row["as compiled"]
        figures = tuple(_counted(name, figure) for name, figure in row["figures"].items())
        matched[entry.number] = AccessCounters(figures, compiled["instructions"], tuple(compiled["changes"]))
    return matched


def _agree(entry: Entry, written: Mapping[str, Any]) -> bool:
    """Whether an access is that of a row, by its width and executions. Totals of a copy with a guard count the warps
    that read and those that fill with zeros."""
    if entry.bytes_per_lane != written["bytes"]:
        return False
    totals, executions = entry.report.totals, written["executions"]
    if totals is None or executions is None or entry.report.access.kind == "async_copy":
        return True
    return bool(totals.warps == executions)


def _counted(name: str, row: Mapping[str, Any]) -> Counted:
    return Counted(name, row["predicted"], row["measured"], row.get("reason", ""))
