"""Bandwidth of the shared memory of all SMs, and of the L2.

CUDA programming guide: a bank delivers a word every two clock cycles before 3.0 (release 4.2, F.3.3 and F.4.3), and
every cycle from then on; a word has 64 bits on 3.x, otherwise 32.
"""

from __future__ import annotations

from cugen.machine.devices import Device
from cugen.machine.latency import memory_latency
from cugen.machine.table import target
from cugen.machine.target import Target

L2_TO_DRAM_BANDWIDTH = 3  # ratio, where a device has no `l2_bandwidth` (heuristic)


def wavefront_bytes(row: Target) -> int:
    """Bytes that all banks deliver in one wavefront."""
    return row.banks * max(row.bank_modes)


def shared_bandwidth(device: Device) -> float:
    """Bytes per second of a device at its boost clock: banks x bank width x SMs x clock."""
    row = target(device.target)
    cycles = 1 if row.capability >= (3, 0) else 2
    return wavefront_bytes(row) * device.sms * memory_latency(device).clock / cycles
