"""Choice of the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from cugen.runtime.cpu import CpuDevice
from cugen.runtime.cuda.choice import without_pycuda
from cugen.runtime.device import Device
from cugen.runtime.gpu import GpuDevice, available

DeviceName = Literal["auto", "gpu", "cpu"]
DEVICE_NAMES: tuple[DeviceName, ...] = get_args(DeviceName)


@dataclass(frozen=True)
class Choice:
    """`reason` says why `auto` chose the CPU, `note` what the device does without; else empty."""

    device: Device
    reason: str = ""
    note: str = ""


def choose(name: DeviceName, *, sanitize: bool = False, shuffle: int | None = None) -> Choice:
    """`auto` is the GPU if there is one; `sanitize` and `shuffle` imply the CPU device.

    RunError (CG5011) for `gpu` without a GPU."""
    if name == "gpu":
        return _gpu()
    cpu = CpuDevice(sanitize=sanitize, shuffle=shuffle)
    if name == "cpu" or sanitize or shuffle is not None:
        return Choice(cpu)
    reason = available()
    return Choice(cpu, reason) if reason else _gpu()


def _gpu() -> Choice:
    return Choice(GpuDevice(), note=without_pycuda())
