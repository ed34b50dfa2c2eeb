"""Devices by name, with their published peak rates.

Rates are at the boost clock and without sparsity. Sources: NVIDIA's data sheets and architecture white papers of each
product; the L2 sizes of B200 and H200 are what the driver reports.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cugen.machine.table import architecture_specific

KB, MB = 1024, 1024 * 1024
GIGA, TERA = 1e9, 1e12


# Generation of PCI Express by compute capability, on 16 lanes; NVLink between GPUs isn't a link to the host.
_PCIE_GENERATIONS = {
    "sm_10": 1,
    **dict.fromkeys(("sm_13", "sm_20"), 2),
    **dict.fromkeys(("sm_35", "sm_60", "sm_61", "sm_70", "sm_75"), 3),
    **dict.fromkeys(("sm_80", "sm_86", "sm_89"), 4),
    **dict.fromkeys(("sm_90", "sm_100", "sm_120"), 5),
}
# Bytes per second in one direction after the encoding of the link: 8b/10b, from 3.0 on 128b/130b.
_PCIE_RATES = {1: 4.0e9, 2: 8.0e9, 3: 15.754e9, 4: 31.508e9, 5: 63.015e9}


@dataclass(frozen=True, slots=True)
class HostLink:
    """The link between a GPU and its host; `bandwidth` in bytes per second and direction."""

    name: str
    bandwidth: float


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU model. `bandwidth` of device memory is in bytes per second, `peaks` in FLOP/s by operand type.

    The keys of `peaks` are `float32` and `float64` (CUDA cores; an FMA counts as two) and `tensor_float64`,
    `tensor_tf32`, `tensor_float16`, `tensor_bfloat16`, `tensor_float8` (tensor cores, accumulating in float32) and
    `tensor_int8` (in int32).
    """

    name: str
    target: str
    sms: int
    bandwidth: float
    peaks: tuple[tuple[str, float], ...]
    l2_bytes: int = 0  # 0 where device memory isn't cached
    l2_bandwidth: float = 0.0  # bytes per second that are read; 0 where no figure is published

    def is_of(self, target: str) -> bool:
        """Whether it has a target's compute capability, as H200 has that of `sm_90` and `sm_90a`."""
        return target in (self.target, architecture_specific(self.target))

    @property
    def host_link(self) -> HostLink:
        """PCI Express of the generation that the GPU supports, on 16 lanes; a host may offer less."""
        generation = _PCIE_GENERATIONS[self.target]
        return HostLink(f"PCIe {generation}.0 x16", _PCIE_RATES[generation])

    def peak(self, kind: str = "float32") -> float:
        """Peak FLOP/s for an operand type; ValueError for an unknown one."""
        rates = dict(self.peaks)
        if kind not in rates:
            raise ValueError(f"{self.name} has no published rate for {kind!r}; known are {', '.join(rates)}")
        return rates[kind]


class UnknownDevice(ValueError):
    """Device that is not in the table; the message lists the known ones."""


def _device(
    name: str,
    target: str,
    sms: int,
    gigabytes_per_s: float,
    l2_bytes: int,
    l2_bandwidth: float = 0.0,
    **teraflops_per_s: float,
) -> Device:
    peaks = tuple((kind, rate * TERA) for kind, rate in teraflops_per_s.items())
    return Device(name, target, sms, gigabytes_per_s * GIGA, peaks, l2_bytes, l2_bandwidth)


def _half(rate: float) -> dict[str, float]:
    return {"tensor_float16": rate, "tensor_bfloat16": rate}


def _eight_bits(rate: float) -> dict[str, float]:
    return {"tensor_float8": rate, "tensor_int8": rate}


_HOPPER_SXM = {
    "float32": 66.9,
    "float64": 33.5,
    "tensor_float64": 66.9,
    "tensor_tf32": 494.7,
    **_half(989.4),
    **_eight_bits(1978.9),
}
_A100 = {
    "float32": 19.5,
    "float64": 9.7,
    "tensor_float64": 19.5,
    "tensor_tf32": 156.0,
    **_half(312.0),
    "tensor_int8": 624.0,
}

# A100 white paper, "A100 L2 cache": bytes read per clock cycle of V100 and of A100, here at their boost clocks.
_V100_L2, _A100_L2 = 2048 * 1.53 * GIGA, 5120 * 1.41 * GIGA

_DEVICES = (
    # GeForce 8800 GTX: 128 cores at 1.35 GHz; the multiply that can be dual-issued with an FMA isn't counted.
    _device("G80", "sm_10", 16, 86.4, 0, float32=0.3456),
    # Tesla C1060 board specification: 240 cores at 1.296 GHz, FMAs only; one float64 unit per SM.
    _device("C1060", "sm_13", 30, 102.4, 0, float32=0.62208, float64=0.07776),
    # Tesla C2050 data sheet, Fermi white paper.
    _device("C2050", "sm_20", 14, 144.0, 768 * KB, float32=1.0304, float64=0.5152),
    # Tesla K40 board specification, at the base clock of 745 MHz as its data sheet counts.
    _device("K40", "sm_35", 15, 288.0, 1536 * KB, float32=4.29, float64=1.43),
    # Pascal white paper: P100 with NVLink (SXM2), 16 GB; GeForce GTX 1080 white paper.
    _device("P100", "sm_60", 56, 732.0, 4 * MB, float32=10.6, float64=5.3),
    _device("GTX 1080", "sm_61", 20, 320.0, 2 * MB, float32=8.873, float64=0.277),
    # Volta white paper: V100 SXM2.
    _device("V100", "sm_70", 80, 900.0, 6 * MB, _V100_L2, float32=15.7, float64=7.8, tensor_float16=125.0),
    # Turing white paper; float64 runs at 1/32 of float32.
    _device("T4", "sm_75", 40, 320.0, 4 * MB, float32=8.1, float64=0.253, tensor_float16=65.0, tensor_int8=130.0),
    # A100 data sheet (SXM4), with 40 and with 80 GB of memory.
    _device("A100 40GB", "sm_80", 108, 1555.0, 40 * MB, _A100_L2, **_A100),
    _device("A100", "sm_80", 108, 2039.0, 40 * MB, _A100_L2, **_A100),
    # GA102 white paper; float64 runs at 1/64 of float32.
    _device(
        "RTX 3090",
        "sm_86",
        82,
        936.2,
        6 * MB,
        float32=35.6,
        float64=0.556,
        tensor_tf32=35.6,
        **_half(71.0),
        tensor_int8=284.0,
    ),
    # Ada white paper; L4 and L40S data sheets, whose figures are with sparsity and halved here.
    _device(
        "RTX 4090",
        "sm_89",
        128,
        1008.0,
        72 * MB,
        float32=82.6,
        float64=1.29,
        tensor_tf32=82.6,
        **_half(165.2),
        tensor_float8=330.3,
        tensor_int8=660.6,
    ),
    _device(
        "L4",
        "sm_89",
        58,
        300.0,
        48 * MB,
        float32=30.3,
        float64=0.473,
        tensor_tf32=60.0,
        **_half(121.0),
        **_eight_bits(242.5),
    ),
    _device(
        "L40S",
        "sm_89",
        142,
        864.0,
        96 * MB,
        float32=91.6,
        float64=1.43,
        tensor_tf32=183.0,
        **_half(362.0),
        **_eight_bits(733.0),
    ),
    # Hopper white paper and data sheets: H100 SXM5, H100 PCIe, H200 SXM.
    _device("H100", "sm_90", 132, 3350.0, 50 * MB, **_HOPPER_SXM),
    _device(
        "H100 PCIe",
        "sm_90",
        114,
        2000.0,
        50 * MB,
        float32=51.2,
        float64=25.6,
        tensor_float64=51.2,
        tensor_tf32=378.0,
        **_half(756.0),
        **_eight_bits(1513.0),
    ),
    _device("H200", "sm_90", 132, 4800.0, 60 * MB, **_HOPPER_SXM),
    # Blackwell data sheet: HGX B200, one of eight, 1000 W.
    _device(
        "B200",
        "sm_100",
        148,
        8000.0,
        126 * MB,
        float32=80.0,
        float64=40.0,
        tensor_float64=40.0,
        tensor_tf32=1100.0,
        **_half(2250.0),
        **_eight_bits(4500.0),
    ),
    # RTX Blackwell white paper; float64 runs at 1/64 of float32.
    _device(
        "RTX 5090",
        "sm_120",
        170,
        1792.0,
        96 * MB,
        float32=104.8,
        float64=1.64,
        tensor_tf32=104.8,
        **_half(209.5),
        tensor_float8=419.0,
        tensor_int8=838.0,
    ),
)
# The default of a target with several devices.
_DEFAULTS = {"sm_80": "A100", "sm_89": "RTX 4090", "sm_90": "H200", "sm_90a": "H200"}
_BRAND = re.compile(r"^(nvidia )?(geforce |tesla )?")
_BY_NAME = {device.name.casefold(): device for device in _DEVICES}


def unit_text(kind: str) -> str:
    """Words for a key of `Device.peaks`: `tensor_tf32` makes `tensor cores (tf32)`."""
    unit, _, dtype = kind.partition("_")
    return f"{unit} cores ({dtype})" if dtype else f"CUDA cores ({kind})"


def known_devices() -> tuple[str, ...]:
    """Names of all devices, oldest first."""
    return tuple(device.name for device in _DEVICES)


def device(name: str) -> Device:
    """Device by its case-insensitive name, also as drivers give it (`NVIDIA GeForce RTX 4090`); UnknownDevice for any
    other."""
    row = _BY_NAME.get(_BRAND.sub("", name.casefold()))
    if row is None:
        raise UnknownDevice(f"unknown device {name!r}; known are {', '.join(known_devices())}")
    return row


def default_device(target: str) -> Device | None:
    """Default device of a target; None if the table has none of that compute capability."""
    if target in _DEFAULTS:
        return device(_DEFAULTS[target])
    return next((candidate for candidate in _DEVICES if candidate.is_of(target)), None)


# The device that launch sizes are planned for, whatever the target: kernels stay the same from one GPU to another.
PLANNING_DEVICE = device("H200")


def modelled_device(target: str) -> Device:
    """The device whose rates the cost models of a target's kernels have: its default, or the planning device."""
    return default_device(target) or PLANNING_DEVICE
