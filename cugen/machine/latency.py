"""How long device memory takes to answer, in cycles of an SM, and how fast an SM issues.

Documents speak of it for 1.x to 3.x only; later figures are those of one study with a pointer chase, or stand in for
what nobody published. All are for an idle memory: under load it takes longer, and more must be in flight.
"""

from __future__ import annotations

from dataclasses import dataclass

from cugen.machine.devices import Device
from cugen.machine.table import target

_GUIDE = "CUDA programming guide 4.2, 5.2.3"
_STUDY = "Luo and others, arXiv 2402.13499, a pointer chase on"


@dataclass(frozen=True, slots=True)
class Latency:
    """`cycles` from a load of device memory to its value, `seconds` at the boost clock; `assumed` where no source
    names the target. `issue_cycles` are those that a scheduler takes to issue one instruction of a warp on the
    float32 units, `schedulers` how many an SM has. `saturating_bytes` were seen to be in flight in each SM when the
    memory ran at its full rate; 0 where that wasn't measured."""

    cycles: int
    seconds: float
    issue_cycles: int
    schedulers: int
    source: str
    assumed: bool
    saturating_bytes: int = 0


_SATURATING = {"H200": 48 * 1024}

# From this capability on: cycles, float32 units of an SM, source ("" where none names it).
_ROWS = (
    ((1, 0), 600, 8, f"{_GUIDE}: 400 to 800"),
    ((2, 0), 600, 32, f"{_GUIDE}: 400 to 800"),
    ((3, 0), 300, 192, f"{_GUIDE}: 200 to 400"),
    ((5, 0), 500, 128, ""),
    ((6, 0), 500, 64, ""),
    ((6, 1), 500, 128, ""),
    ((7, 0), 500, 64, ""),
    ((8, 0), 466, 64, f"{_STUDY} an A100"),
    ((8, 6), 500, 128, ""),
    ((8, 9), 542, 128, f"{_STUDY} an RTX 4090"),
    ((9, 0), 479, 128, f"{_STUDY} an H100 PCIe"),
    ((10, 0), 500, 128, ""),
)
_STAND_IN = "no source names this target; 500 cycles is the order of what was measured from 8.0 to 9.0"


def memory_latency(device: Device) -> Latency:
    """The row of a device's target."""
    row = target(device.target)
    cycles, units, source = next(r[1:] for r in reversed(_ROWS) if r[0] <= row.capability)
    clock = device.peak() / (2 * units * device.sms)
    saturating = _SATURATING.get(device.name, 0)
    issue = max(1, 32 * row.sub_partitions // units)
    return Latency(cycles, cycles / clock, issue, row.sub_partitions, source or _STAND_IN, not source, saturating)
