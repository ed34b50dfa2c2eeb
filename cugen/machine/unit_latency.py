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
_H100 = "measured on an H100 SXM, benchmarks/machine/latencies.py"


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
        ((9, 0), (9, 0), 4, _H100),
    ),
    "shared": (
        ((1, 0), (1, 3), 38, _WONG),
        ((7, 0), (7, 2), 19, _JIA),
        ((8, 0), (8, 0), 29.0, f"{_LUO} an A100"),
        ((8, 9), (8, 9), 30.1, f"{_LUO} an RTX 4090"),
        ((9, 0), (9, 0), 23, _H100),
    ),
    "constant": (((1, 0), (1, 3), 8, _WONG), ((9, 0), (9, 0), 28, _H100)),
    "texture": (((1, 0), (1, 3), 261, _WONG), ((9, 0), (9, 0), 88, _H100)),
}
# Units whose latency newer targets are taken to keep, from a compute capability on.
_KEPT = {"registers": (7, 0)}
UNITS = tuple(_FIGURES)


def unit_latency(unit: str, target: Target) -> UnitLatency:
    """The latency of a unit; KeyError for an unknown one."""
    rows = [row for row in _FIGURES[unit] if row[0] <= target.capability]
    if not rows:
        return UnitLatency(unit, None)
    _, last, cycles, source = rows[-1]
    if target.capability <= last:
        return UnitLatency(unit, cycles, source)
    if unit in _KEPT and target.capability >= _KEPT[unit]:
        return UnitLatency(unit, cycles, source, assumed=True)
    return UnitLatency(unit, None)
