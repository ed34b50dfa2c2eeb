"""Bytes that a launch reads and writes over the link to the host: of mapped arrays each time, of managed ones where
their pages are on the other side.

Source: CUDA programming guide, zero-copy memory and unified memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from cugen.analysis.launches.traffic import Traffic
from cugen.machine import Device
from cugen.plan.context import Context


@dataclass(frozen=True, slots=True)
class HostBytes:
    """An array that is mapped or managed, by its name in the spec. `read` and `written` count each byte once; a mapped
    array has more traffic where caches don't keep what is used again. `seconds` is the time of the direction with more
    bytes on the `link`, whose rate is in bytes per second; None for an unknown device."""

    array: str
    allocation: str
    read: int
    written: int
    link: str
    bandwidth: float
    seconds: float | None


def host_bytes(traffic: Traffic, context: Context, device: Device | None) -> tuple[HostBytes, ...]:
    """Figures of the mapped and managed arrays of a launch."""
    made = []
    for declared in context.original.arrays:
        if declared.memory.allocation == "device":
            continue
        symbol = context.arrays[declared.name].symbol
        read = sum(each.compulsory for each in traffic.arrays if each.array == symbol and each.direction == "read")
        written = sum(
            each.compulsory for each in traffic.arrays if each.array == symbol and each.direction == "written"
        )
        if not read + written:
            continue
        link = device.host_link if device else None
        made.append(
            HostBytes(
                declared.name,
                declared.memory.allocation,
                read,
                written,
                link.name if link else "",
                link.bandwidth if link else 0.0,
                max(read, written) / link.bandwidth if link else None,
            )
        )
    return tuple(made)
