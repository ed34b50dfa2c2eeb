"""`check`: the limits that `cugen check` enforces."""

from __future__ import annotations

from cugen.spec.diagnostics import Reporter
from cugen.spec.model import Check
from cugen.spec.parse.keys import CHECK_KEYS
from cugen.spec.parse.nodes import Entry, YamlNode
from cugen.spec.parse.reading import first_line, read_choice, read_integer, read_keys, read_number


def read_check(node: YamlNode, report: Reporter) -> Check:
    """The limits; a refused one is left out. Ratios are to the ideal, so they are at least 1."""
    found = read_keys(node, CHECK_KEYS, report, key="check") or {}
    spills = None
    if "spills" in found:
        spills = read_integer(found["spills"].value, report, key="check.spills", low=0, high=2**31 - 1)
    allow = None
    if "unknown" in found:
        allow = read_choice(found["unknown"].value, ("allow",), report, key="check.unknown", what="word")
    return Check(
        bank_conflicts=_limit(found, "bank_conflicts", report, low=1),
        sectors=_limit(found, "sectors", report, low=1),
        occupancy=_limit(found, "occupancy", report, low=0, high=1),
        spills=spills,
        mixed_warps=_limit(found, "mixed_warps", report, low=0),
        allow_unknown=allow == "allow",
        spans=tuple((name, first_line(entry.value)) for name, entry in found.items()),
    )


def _limit(
    found: dict[str, Entry], name: str, report: Reporter, *, low: float, high: float = float("inf")
) -> float | None:
    if name not in found:
        return None
    return read_number(found[name].value, report, key=f"check.{name}", low=low, high=high)
