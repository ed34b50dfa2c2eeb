"""What a device is to the rest of cugen: something that plays a manifest's launch list over buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from numpy.typing import NDArray

from cugen.abi.manifest import Manifest

Buffer = NDArray[Any]


@dataclass(frozen=True)
class Job:
    """One call of a generated entry point.

    `buffers` holds, for each array argument, a flat array of the argument's `elements` in its storage type, laid
    out as the manifest's strides say, outputs and gaps poisoned. Workspaces are the device's affair (poisoned too).
    """

    source: str  # the text of the .cu
    manifest: Manifest
    buffers: Mapping[str, Buffer]
    params: Mapping[str, int] = field(default_factory=dict)  # of the dynamic ones
    scalars: Mapping[str, int | float | bool] = field(default_factory=dict)
    repeat: int = 1


@dataclass(frozen=True)
class Fault:
    """Something that the device caught: out of bounds, a damaged canary, a divergent barrier, a race, a crash."""

    kind: str
    message: str
    line: int = 0  # of the .cu, 0 where unknown


@dataclass(frozen=True)
class Outcome:
    """Buffers of the outputs after the first play of the launch list, and one time for each repetition."""

    buffers: Mapping[str, Buffer]
    times_ms: tuple[float, ...] = ()
    compile_ms: float = 0.0
    registers: Mapping[str, int] = field(default_factory=dict)  # by kernel; empty where the device has none
    spill_bytes: Mapping[str, int] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()


class Device(Protocol):
    """`name` is what `--device` and reports call it."""

    name: str

    def run(self, job: Job) -> Outcome: ...
