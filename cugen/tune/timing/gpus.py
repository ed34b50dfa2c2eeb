"""GPUs of this machine, identified by UUIDs for `CUDA_VISIBLE_DEVICES`. Listing them creates no CUDA context."""

from __future__ import annotations

import ctypes
import uuid
from dataclasses import dataclass, replace

from cugen.runtime.cuda.libcuda import driver


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU. `uuid` is empty on machines with one GPU, which need no `CUDA_VISIBLE_DEVICES`."""

    name: str
    capability: str
    uuid: str = ""


def gpus() -> tuple[Gpu, ...]:
    """All visible GPUs. Raises RunError (CG5011) if there is none."""
    devices = identified_gpus()
    return devices if len(devices) > 1 else tuple(replace(gpu, uuid="") for gpu in devices)


def identified_gpus() -> tuple[Gpu, ...]:
    """As `gpus`, all with their UUIDs: those of other machines are in use as well."""
    cuda = driver()
    count = ctypes.c_int()
    cuda.call("cuDeviceGetCount", ctypes.byref(count))
    devices = []
    for ordinal in range(count.value):
        raw = ctypes.create_string_buffer(16)
        cuda.call("cuDeviceGetUuid_v2", raw, ordinal)
        devices.append(Gpu(cuda.limits(ordinal).device, cuda.capability(ordinal), f"GPU-{uuid.UUID(bytes=raw.raw)}"))
    return tuple(devices)
