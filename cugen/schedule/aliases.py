"""Names of tunables, their values and families in version 0.1: read for one more version, never written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cugen.families.base import Family
from cugen.spec.model import Schedule

FAMILIES = {"cascade": "fused_stencil"}
TUNABLES = {
    "blocks": "blocks_per_sm",
    "columns": "tile_n",
    "copies": "prefetch",
    "depth": "mma_k",
    "how": "algorithm",
    "join": "reduction",
    "parts": "split_k",
    "products": "batch",
    "reads": "addressing",
    "slices": "sliced_k",
    "split": "split_k",
    "stream": "stream_k",
    "strips": "threads_per_column",
}
VALUES = {
    ("addressing", "subscripts"): "indexed",
    ("prefetch", "first"): "upfront",
    ("prefetch", "apart"): "interleaved",
    ("algorithm", "passes"): "multi_pass",
}


def with_current_names(schedule: Schedule, families: Sequence[Family]) -> Schedule:
    """The schedule in the names of this version; a name that some family still has is no alias."""
    known = {tunable.name for family in families for tunable in family.tunables}
    renamed = {old: new for old, new in TUNABLES.items() if old not in known and new in known}
    tunables: dict[str, int | str | bool] = {}
    for name, value in schedule.tunables:
        current = renamed.get(name, name)
        tunables[current] = VALUES.get((current, value), value) if isinstance(value, str) else value
    names = {family.name for family in families}
    family = schedule.family
    if family is not None and family not in names and FAMILIES.get(family) in names:
        family = FAMILIES[family]
    spans = tuple((renamed.get(key, key), span) for key, span in schedule.spans)
    return replace(schedule, family=family, tunables=tuple(tunables.items()), spans=spans)
