"""Choice of the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from cugen.abi.manifest import Manifest
from cugen.runtime.bindings import missing_pycuda
from cugen.runtime.cpu import CpuDevice
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

    def note_on(self, manifest: Manifest) -> str:
        """A note that the CUDA driver launches a kernel in place of PyCUDA; empty where the device does."""
        if self.note or self.device.name != GpuDevice.name or not manifest.tensor_maps:
            return ""
        return f"{manifest.kernel}: PyCUDA has no arguments for tensor maps; the CUDA driver launches it beside PyCUDA"


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
    device, lack = GpuDevice(), missing_pycuda()
    if not lack:
        return Choice(device)
    return Choice(device, note=f"running through the CUDA driver without PyCUDA ({lack}); `cugen setup gpu` builds it")
