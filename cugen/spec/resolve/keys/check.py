"""`check`: the limits that `cugen check` enforces."""

from __future__ import annotations

from cugen.spec.diagnostics import Reporter
from cugen.spec.model import Check
from cugen.spec.parse.keys import CHECK_KEYS
from cugen.spec.parse.nodes import Entry, YamlNode
from cugen.spec.parse.reading import first_line, read_choice, read_integer, read_keys, read_number


def read_check(node: YamlNode, report: Reporter) -> Check:
    """The limits, without invalid ones. Ratios are relative to the ideal, so at least 1."""
    limits = read_keys(node, CHECK_KEYS, report, key="check") or {}
    allow = None
    if "unknown" in limits:
        allow = read_choice(limits["unknown"].value, ("allow",), report, key="check.unknown", what="value")
    return Check(
        bank_conflicts=_limit(limits, "bank_conflicts", report, low=1),
        sectors=_limit(limits, "sectors", report, low=1),
        occupancy=_limit(limits, "occupancy", report, low=0, high=1),
        spills=_bytes(limits, "spills", report),
        local=_bytes(limits, "local", report),
        mixed_warps=_limit(limits, "mixed_warps", report, low=0),
        allow_unknown=allow == "allow",
        spans=tuple((name, first_line(entry.value)) for name, entry in limits.items()),
    )


def _bytes(limits: dict[str, Entry], name: str, report: Reporter) -> int | None:
    if name not in limits:
        return None
    return read_integer(limits[name].value, report, key=f"check.{name}", low=0, high=2**31 - 1)


def _limit(
    limits: dict[str, Entry], name: str, report: Reporter, *, low: float, high: float = float("inf")
) -> float | None:
    if name not in limits:
        return None
    return read_number(limits[name].value, report, key=f"check.{name}", low=low, high=high)
