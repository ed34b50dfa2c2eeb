"""Which device a command runs on: the one that was asked for, or the best that this machine has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cugen.run.device import Device

CHOICES = ("auto", "gpu", "cpu")


@dataclass(frozen=True)
class Choice:
    """`reason` says why `auto` took the CPU; empty where it didn't, or wasn't asked."""

    device: Device
    reason: str = ""


def choose(name: str, *, sanitize: bool = False, shuffle: int | None = None) -> Choice:
    """RunError (CG5011) where `gpu` is asked for and there is none."""
    from cugen.run.cpu import CpuDevice
    from cugen.run.gpu import GpuDevice, available

    reason = ""
    if name == "gpu":
        return Choice(GpuDevice())
    if name == "auto" and not sanitize and shuffle is None:
        reason = available()
        if not reason:
            return Choice(GpuDevice())
    return Choice(CpuDevice(sanitize=sanitize, shuffle=shuffle), reason)
