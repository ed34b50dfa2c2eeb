"""`check`: the limits that `cugen check` enforces."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from cugen.spec.diagnostics import Reporter
from cugen.spec.model import Check
from cugen.spec.nearest import did_you_mean
from cugen.spec.parse.keys import CHECK_KEYS, CHECKS_BY_ARRAY
from cugen.spec.parse.nodes import Entry, YamlMapping, YamlNode
from cugen.spec.parse.reading import (
    first_line,
    join,
    read_choice,
    read_integer,
    read_keys,
    read_mapping,
    read_number,
    shorten,
)

_INFINITY = float("inf")
_RANGES = {  # of numbers: ratios to an ideal are at least 1, shares at most 1
    **dict.fromkeys(("bank_conflicts", "sectors", "traffic"), (1.0, _INFINITY)),
    **dict.fromkeys(("lanes", "occupancy", "waves", "roofline"), (0.0, 1.0)),
    **dict.fromkeys(("mixed_warps", "grid"), (0.0, _INFINITY)),
}


def read_check(node: YamlNode, arrays: Collection[str] | None, report: Reporter) -> Check:
    """The limits, without invalid ones. `arrays`: the names that limits of single arrays may have; None if unknown."""
    return _Reader(read_keys(node, CHECK_KEYS, report, key="check") or {}, arrays, report).check()


@dataclass(frozen=True)
class _Reader:
    limits: dict[str, Entry]
    arrays: Collection[str] | None
    report: Reporter

    def check(self) -> Check:
        return Check(
            bank_conflicts=self._limit("bank_conflicts"),
            sectors=self._limit("sectors"),
            occupancy=self._limit("occupancy"),
            spills=self._count("spills"),
            local=self._count("local"),
            mixed_warps=self._limit("mixed_warps"),
            allow_unknown=self._allows_unknown(),
            lanes=self._limit("lanes"),
            traffic=self._limit("traffic"),
            waves=self._limit("waves"),
            grid=self._limit("grid"),
            roofline=self._limit("roofline"),
            doubles=self._count("doubles"),
            by_array=tuple(self._by_array()),
            spans=tuple((name, first_line(entry.value)) for name, entry in self.limits.items()),
        )

    def _allows_unknown(self) -> bool:
        if "unknown" not in self.limits:
            return False
        node = self.limits["unknown"].value
        return read_choice(node, ("allow",), self.report, key="check.unknown", what="value") == "allow"

    def _count(self, name: str) -> int | None:
        if name not in self.limits:
            return None
        return read_integer(self.limits[name].value, self.report, key=f"check.{name}", low=0, high=2**31 - 1)

    def _limit(self, name: str) -> float | None:
        if name not in self.limits or self._is_by_array(name):
            return None
        return self._number(name, self.limits[name].value, f"check.{name}")

    def _by_array(self) -> Iterator[tuple[str, str, float]]:
        for name in filter(self._is_by_array, self.limits):
            key = f"check.{name}"
            for entry in read_mapping(self.limits[name].value, self.report, key=key) or ():
                value = self._number(name, entry.value, join(key, entry.name))
                if self.arrays is not None and entry.name not in self.arrays:
                    self._reject_array(entry, self.arrays, key)
                elif value is not None:
                    yield name, entry.name, value

    def _is_by_array(self, name: str) -> bool:
        return name in CHECKS_BY_ARRAY and isinstance(self.limits[name].value, YamlMapping)

    def _number(self, name: str, node: YamlNode, key: str) -> float | None:
        low, high = _RANGES[name]
        return read_number(node, self.report, key=key, low=low, high=high)

    def _reject_array(self, entry: Entry, arrays: Collection[str], key: str) -> None:
        self.report.error(
            "CG1014",
            f"there is no array `{shorten(entry.name)}` to limit",
            first_line(entry.key),
            key=join(key, entry.name),
            label="no array of the spec",
            help=did_you_mean(entry.name, tuple(arrays), what="arrays"),
        )
