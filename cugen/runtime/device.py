"""The device protocol: execution of a manifest's launch list on buffers."""

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

    `buffers` has a flat array of `elements` elements for each array argument, with outputs and padding poisoned. The
    device allocates and poisons workspaces.
    """

    source: str = field(repr=False)  # the text of the .cu
    manifest: Manifest
    buffers: Mapping[str, Buffer]
    params: Mapping[str, int] = field(default_factory=dict)  # dynamic ones
    scalars: Mapping[str, int | float | bool] = field(default_factory=dict)
    repeat: int = 1


@dataclass(frozen=True)
class Fault:
    """An error detected by the device: out-of-bounds access, barrier divergence, data race, crash."""

    kind: str
    message: str
    line: int = 0  # of the .cu, 0 where unknown


@dataclass(frozen=True)
class Outcome:
    """Output buffers after the first run of the launch list, and the time of each repetition."""

    buffers: Mapping[str, Buffer]
    times_ms: tuple[float, ...] = ()
    compile_ms: float = 0.0
    registers: Mapping[str, int] = field(default_factory=dict)  # by kernel; empty for the CPU device
    spill_bytes: Mapping[str, int] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()


class Device(Protocol):
    """`name` is its name in `--device` and in reports; `capability` its compute capability, such as `sm_90`, empty for
    the CPU."""

    name: str

    @property
    def capability(self) -> str: ...

    def run(self, job: Job) -> Outcome: ...
