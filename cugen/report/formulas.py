"""The offset of an access as a formula over the names of the source, with the definitions of these names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import sympy

from cugen.analysis.totals.sites import THREAD, Site
from cugen.analysis.verdicts.subjects import source_expression
from cugen.analysis.verdicts.wording import Wording
from cugen.plan.memory import UNKNOWN_OFFSET


@dataclass(frozen=True, slots=True)
class Formula:
    """`offset` in elements, and (name, text) of the names in it: a definition, or the range of a loop's index."""

    offset: str
    where: tuple[tuple[str, str], ...]


def formula(site: Site, wording: Wording) -> Formula | None:
    """The formula of an access; None where no formula gives its coordinates."""
    if site.access.offset() == UNKNOWN_OFFSET:
        return None
    expr = source_expression(site)
    return Formula(wording.text(expr), tuple(_definitions(site, wording, expr.free_symbols)))


def _definitions(site: Site, wording: Wording, used: Iterable[sympy.Symbol]) -> list[tuple[str, str]]:
    """The definitions of names, then of the names in these."""
    texts: dict[str, str] = {}
    pending = sorted(used, key=str)
    while pending:
        name = pending.pop(0)
        if str(name) in texts or name in THREAD:
            continue
        if name in site.source_definitions:
            definition = site.source_definitions[name]
            texts[str(name)] = f"= {wording.text(definition)}"
            pending += sorted(definition.free_symbols, key=str)
        elif name in site.definitions and site.definitions[name].is_Integer:
            texts[str(name)] = f"= {site.definitions[name]}"
        elif name in wording.ranges:
            low, high = wording.ranges[name]
            texts[str(name)] = f"in {low:,} … {high:,}"
    return list(texts.items())
