"""Latency of device memory in SM cycles, the issue rate of an SM, and the time of a launch.

The CUDA programming guide documents 1.x to 3.x; later figures are from one pointer-chase study, or assumed. All are
unloaded latencies: under load they grow, and more bytes must be in flight.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from cugen.machine.devices import Device
from cugen.machine.table import target
from cugen.machine.target import Target

# Of an empty kernel: what would take less takes as long.
EMPTY_LAUNCH_SECONDS = 2e-6  # measured on an H200
# Between two blocks' starts (measured on H200: 3,000,017 blocks in 1808 us, 500,009 in 305).
BLOCK_START_CYCLES = 1.2
# Of a launch that stores what the next one reads, besides its traffic: the next one waits for its end.
STORING_LAUNCH_SECONDS = 2.8e-6  # measured on an H100, of a copy before a GEMM
_GUIDE = "CUDA programming guide 4.2, 5.2.3"
_STUDY = "Luo and others, arXiv 2402.13499, a pointer chase on"


@dataclass(frozen=True, slots=True)
class Latency:
    """Unloaded latency of a global load in `cycles`, and in `seconds` at the boost clock; `assumed` without a source.

    issue_cycles: cycles for a scheduler to issue one float32 warp instruction. schedulers: warp schedulers per SM.
    saturating_bytes: bytes in flight per SM that saturated the memory bandwidth; 0 where not measured. clock: the boost
    clock in Hz.
    """

    cycles: int
    seconds: float
    issue_cycles: int
    schedulers: int
    source: str
    assumed: bool
    saturating_bytes: int = 0
    clock: float = 0.0


_SATURATING_BYTES_PER_SM = {"H200": 48 * 1024}  # measured

# (first compute capability, latency in cycles, float32 units per SM, source or "").
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
_NO_SOURCE = "no source for this target; 500 cycles is the order of magnitude measured from 8.0 to 9.0"


def issue_cycles(row: Target) -> int:
    """Cycles for a scheduler to issue one float32 warp instruction."""
    return max(1, 32 * row.sub_partitions // _figures(row)[1])


def alu_slots(row: Target) -> float:
    """Issue slots of an instruction that compares, selects or shifts: from 7.0 on its unit takes half a warp per
    cycle."""
    return 2 / issue_cycles(row) if row.capability >= (7, 0) else 1.0


def _figures(row: Target) -> tuple[int, int, str]:
    return next((cycles, units, source) for first, cycles, units, source in reversed(_ROWS) if first <= row.capability)


@lru_cache(maxsize=64)
def memory_latency(device: Device) -> Latency:
    """Latency of a device's memory."""
    row = target(device.target)
    cycles, units, source = _figures(row)
    clock = device.peak() / (2 * units * device.sms)
    saturating = _SATURATING_BYTES_PER_SM.get(device.name, 0)
    issue = issue_cycles(row)
    return Latency(
        cycles, cycles / clock, issue, row.sub_partitions, source or _NO_SOURCE, not source, saturating, clock
    )


def issue_rate(device: Device) -> float:
    """Warp instructions per second of all schedulers at the boost clock, each of one slot as a float32 FMA."""
    latency = memory_latency(device)
    return device.sms * latency.schedulers * latency.clock / latency.issue_cycles


def bandwidth_share(device: Device, bytes_in_flight: float) -> float:
    """What loads reach of the memory's bandwidth with so many bytes in flight, on all SMs: they wait for the unloaded
    latency and for what is before them (measured on H200: 0.61 of a read with 15 KiB per SM, 0.85 with 32)."""
    return bytes_in_flight / (bytes_in_flight + device.bandwidth * memory_latency(device).seconds)
