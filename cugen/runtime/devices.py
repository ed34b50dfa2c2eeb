"""Which device to run on: the one that is asked for, or the best that this machine has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cugen.runtime.cpu import CpuDevice
from cugen.runtime.device import Device
from cugen.runtime.gpu import GpuDevice, available

DeviceName = Literal["auto", "gpu", "cpu"]


@dataclass(frozen=True)
class Choice:
    """`reason` says why `auto` took the CPU; it is empty where it didn't, or where a device was named."""

    device: Device
    reason: str = ""


def choose(name: DeviceName, *, sanitize: bool = False, shuffle: int | None = None) -> Choice:
    """`sanitize` and `shuffle` are the CPU device's, so `auto` takes that for them. RunError (CG5011) where `gpu` is
    asked for and there is none."""
    if name == "gpu":
        return Choice(GpuDevice())
    own = CpuDevice(sanitize=sanitize, shuffle=shuffle)
    if name == "cpu" or sanitize or shuffle is not None:
        return Choice(own)
    reason = available()
    return Choice(own, reason) if reason else Choice(GpuDevice())
