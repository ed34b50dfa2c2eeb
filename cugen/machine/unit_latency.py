"""Unloaded latencies of registers, shared memory, and the first levels of the constant and texture caches.

Measured figures are of one GPU; targets without one have None. Sources are named with each figure.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from cugen.machine.target import Target

_GUIDE = "CUDA programming guide 4.2, 5.2.3"
_GUIDE_7 = "CUDA programming guide, multiprocessor level, of 7.x"
_WONG = "Wong and others, Demystifying GPU Microarchitecture (2010), a GTX 280"
_JIA = "Jia and others, arXiv 1804.06826, a V100"
_LUO = "Luo and others, arXiv 2402.13499,"


@dataclass(frozen=True, slots=True)
class UnitLatency:
    """Cycles until a dependent instruction may be issued, by the `source`; None without one.

    unit: `registers`, `shared`, `constant` or `texture`. `assumed`: the figure is one of an older target."""

    unit: str
    cycles: float | None
    source: str = ""
    assumed: bool = False

    def warps_to_hide(self, issue_cycles: int) -> int:
        """Warps per scheduler that hide it, each with one such instruction after the other; 0 without a figure."""
        return ceil((self.cycles or 0) / issue_cycles)


# By unit: (first and last compute capability, cycles, source).
_FIGURES = {
    "registers": (
        ((1, 0), (1, 3), 24, _WONG),
        ((2, 0), (2, 1), 22, _GUIDE),
        ((3, 0), (3, 7), 11, _GUIDE),
        ((7, 0), (7, 5), 4, _GUIDE_7),
    ),
    "shared": (
        ((1, 0), (1, 3), 38, _WONG),
        ((7, 0), (7, 2), 19, _JIA),
        ((8, 0), (8, 0), 29.0, f"{_LUO} an A100"),
        ((8, 9), (8, 9), 30.1, f"{_LUO} an RTX 4090"),
        ((9, 0), (9, 0), 29.0, f"{_LUO} an H100 PCIe"),
    ),
    "constant": (((1, 0), (1, 3), 8, _WONG),),
    "texture": (((1, 0), (1, 3), 261, _WONG),),
}
# Units whose latency newer targets are taken to keep.
_KEPT = ("registers",)
UNITS = tuple(_FIGURES)


def unit_latency(unit: str, target: Target) -> UnitLatency:
    """The latency of a unit; KeyError for an unknown one."""
    rows = [row for row in _FIGURES[unit] if row[0] <= target.capability]
    if not rows:
        return UnitLatency(unit, None)
    _, last, cycles, source = rows[-1]
    if target.capability <= last:
        return UnitLatency(unit, cycles, source)
    if unit in _KEPT and len(rows) == len(_FIGURES[unit]):
        return UnitLatency(unit, cycles, source, assumed=True)
    return UnitLatency(unit, None)
