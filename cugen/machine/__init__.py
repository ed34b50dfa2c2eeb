"""GPUs: compute capabilities and devices by name."""

from cugen.machine.devices import Device, UnknownDevice, default_device, device, known_devices
from cugen.machine.table import UnknownTarget, architecture_specific, canonical_name, is_known, known_targets, target
from cugen.machine.target import Target

__all__ = [
    "Device",
    "Target",
    "UnknownDevice",
    "UnknownTarget",
    "architecture_specific",
    "canonical_name",
    "default_device",
    "device",
    "is_known",
    "known_devices",
    "known_targets",
    "target",
]
