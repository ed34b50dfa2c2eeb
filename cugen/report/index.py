"""The index of several pages: a row for each kernel, with sums over its launches."""

from __future__ import annotations

from dataclasses import dataclass

from cugen.report.page import Page


@dataclass(frozen=True, slots=True)
class Row:
    """A kernel of the index. Bytes and seconds are None if a launch's are unknown."""

    kernel: str
    doc: str
    target: str
    launches: int
    accesses: int
    costly: int
    unproved: int  # assumed or unknown
    worst_ratio: float | None
    moved: int | None
    seconds: float | None


def row(page: Page) -> Row:
    """The row of a page. `seconds` is what the compulsory bytes and the arithmetic need at least."""
    verdicts = dict(page.verdicts)
    facts = [launch.report.facts for launch in page.launches]
    traffic = [known.traffic.moved if known.traffic is not None else None for known in facts]
    bounds = [known.roofline.best.seconds if known.roofline is not None else None for known in facts]
    return Row(
        page.kernel.name,
        page.kernel.spec.doc,
        page.target.name,
        len(page.launches),
        len(page.entries),
        verdicts.get("costly", 0),
        verdicts.get("assumed", 0) + verdicts.get("unknown", 0),
        max((entry.report.ratio for entry in page.entries if entry.report.ratio is not None), default=None),
        None if None in traffic else sum(count for count in traffic if count is not None),
        None if None in bounds else sum(seconds for seconds in bounds if seconds is not None),
    )
