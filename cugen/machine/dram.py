"""Device memory: its width, clock and bursts by GPU model, and the partitions of 1.x.

Widths and clocks are NVIDIA's; a GPU without a published figure has 0. There are two transfers per cycle of the clock
that NVIDIA names, which need not be the one on the pins.
"""

from __future__ import annotations

from dataclasses import dataclass

from cugen.machine.devices import Device
from cugen.machine.target import Target

PARTITION_BYTES = 256
PARTITION_SOURCE = "Ruetsch and Micikevicius, Optimizing Matrix Transpose in CUDA (NVIDIA, 2009)"
_MHZ = 1e6


@dataclass(frozen=True, slots=True)
class Burst:
    """What one access of a channel transfers: `length` times the `channel_bits`."""

    channel_bits: int
    length: int
    source: str

    @property
    def bytes(self) -> int:
        return self.channel_bits * self.length // 8


@dataclass(frozen=True, slots=True)
class Dram:
    """Memory of a GPU model: `kind` as JEDEC names it; `bus_bits` and `clock` in Hz, 0 without a source."""

    kind: str
    bus_bits: int = 0
    clock: float = 0.0
    source: str = ""

    @property
    def bandwidth(self) -> float:
        """Peak in bytes per second: width × clock × 2; 0 where one of them has no source."""
        return self.bus_bits / 8 * self.clock * 2

    @property
    def burst(self) -> Burst | None:
        """None for memory whose standard isn't public, or transfers no whole bits."""
        return _BURSTS.get(self.kind)


# The channel is what is addressed by itself: of HBM a pseudo channel, of GDDR3 both chips of a partition.
_BURSTS = {
    "GDDR3": Burst(64, 4, "GDDR3 prefetches 4 words, on 64 bits per partition"),
    "GDDR5": Burst(32, 8, "JEDEC JESD212"),
    "GDDR5X": Burst(32, 16, "JEDEC JESD232"),
    "GDDR6": Burst(16, 16, "JEDEC JESD250"),
    "HBM2": Burst(64, 4, "JEDEC JESD235"),
    "HBM2e": Burst(64, 4, "JEDEC JESD235"),
    "HBM3": Burst(32, 8, "JEDEC JESD238"),
    "HBM3e": Burst(32, 8, "JEDEC JESD238"),
}
_PARTITIONS = {(1, 0): 6, (1, 3): 8}  # of G80 and GT200, by compute capability
_MEMORIES = {
    "G80": Dram("GDDR3", 384, 900 * _MHZ, "GeForce 8800 GTX technical brief"),
    "C1060": Dram("GDDR3", 512, 800 * _MHZ, "Tesla C1060 board specification"),
    "C2050": Dram("GDDR5", 384, 1500 * _MHZ, "Tesla C2050 board specification"),
    "K40": Dram("GDDR5", 384, 3000 * _MHZ, "Tesla K40 board specification"),
    "P100": Dram("HBM2"),
    "GTX 1080": Dram("GDDR5X", 256, 5000 * _MHZ, "GeForce GTX 1080 white paper"),
    "V100": Dram("HBM2", 4096, 877.5 * _MHZ, "A100 white paper"),
    "T4": Dram("GDDR6", 256, 5000 * _MHZ, "Turing white paper"),
    "A100 40GB": Dram("HBM2", 5120, 1215 * _MHZ, "A100 white paper"),
    "A100": Dram("HBM2e"),
    "RTX 3090": Dram("GDDR6X", 384, 9750 * _MHZ, "GA102 white paper"),
    "RTX 4090": Dram("GDDR6X", 384, 10500 * _MHZ, "Ada white paper"),
    "L4": Dram("GDDR6"),
    "L40S": Dram("GDDR6"),
    "H100": Dram("HBM3"),
    "H100 PCIe": Dram("HBM2e"),
    "H200": Dram("HBM3e"),
    "B200": Dram("HBM3e"),
    "RTX 5090": Dram("GDDR7", 512, 14000 * _MHZ, "RTX Blackwell white paper"),
}


def dram(device: Device) -> Dram:
    """Memory of a device of the table."""
    return _MEMORIES[device.name]


def memory_partitions(target: Target) -> int:
    """Partitions of device memory, among which PARTITION_BYTES at a time are dealt out; 0 where NVIDIA documents no
    rule."""
    return _PARTITIONS.get(target.capability, 0)
