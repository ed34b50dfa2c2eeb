"""A GPU that is a few lines of Python: memory is bytes, kernels are functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cugen.toolchain.binary.elf import Parameter

BASE = 1 << 16
PRIMARY = 1 << 40  # the handle of the primary context of GPU 0; those of the others follow
DYNAMIC, CARVEOUT = 8, 9  # CU_FUNC_ATTRIBUTE_*
SYMBOL = 256  # the address of every `__constant__` variable


class IllegalAddressError(Exception):
    """Raised by a kernel."""


class FakeGpu:
    """`kernels` take NumPy scalars, of the types in `parameters`; tensor maps are `V128`."""

    def __init__(self) -> None:
        self.memory = np.zeros(1 << 20, np.uint8)
        self.top = BASE
        self.allocated: set[int] = set()
        self.count = 1
        self.kernels: dict[str, Callable[..., None]] = {}
        self.parameters: dict[str, tuple[str, ...]] = {}
        self.launches: list[tuple[str, dict[str, Any]]] = []
        self.launched: list[tuple[str, str, int]] = []  # through what, kernel, stream
        self.attributes: dict[str, int] = {}
        self.configured: list[tuple[str, int]] = []  # what a launch asked, as the values of libcuda
        self.host_allocations: list[tuple[str, int]] = []
        self.contexts: list[str] = []
        self.current: list[int] = []  # the driver's stack of contexts of this thread
        self.captured: list[str] | None = None  # what a graph has, while a stream captures
        self.streams: list[int] = []
        self.live_events = 0
        self.live_modules = 0
        self.is_broken = False
        self.textures: dict[int, int] = {}
        self.tensor_maps: dict[bytes, tuple[int, tuple[int, ...]]] = {}
        self.ticks = 0

    def view(self, address: int, count: int, dtype: str = "float32") -> np.ndarray:
        size = np.dtype(dtype).itemsize * count
        return self.memory[int(address) : int(address) + size].view(dtype)

    def allocate(self, size: int) -> int:
        address, self.top = self.top, self.top + (size + 255) // 256 * 256
        self.allocated.add(address)
        return address

    def set_attribute(self, kernel: str, attribute: int, value: int) -> None:
        if attribute == CARVEOUT:
            self.configured.append(("carve-out", value))
        else:
            self.attributes[kernel] = value

    def push(self, context: int) -> None:
        self.contexts.append("push")
        self.current.append(context)

    def pop(self) -> None:
        self.contexts.append("pop")
        self.current.pop()

    def make_stream(self) -> int:
        self.streams.append((1 << 41) + 16 * len(self.streams))
        return self.streams[-1]

    def launch(self, through: str, kernel: str, arguments: tuple[np.generic, ...], stream: int, **shape: Any) -> None:
        self.launched.append((through, kernel, stream))
        if self.captured is not None:
            self.captured.append(kernel)
            return
        self.launches.append((kernel, shape))
        try:
            self.kernels[kernel](*arguments)
        except IllegalAddressError:
            self.is_broken = True  # which later calls report

    def tick(self) -> int:
        self.ticks += 1
        return self.ticks


def parameters_of(gpu: FakeGpu, kernel: str) -> tuple[Parameter, ...]:
    """Where a compiler puts the parameters: the bank has 16 bytes in front of them."""
    parameters, end = [], 16
    for size in (np.dtype(name).itemsize for name in gpu.parameters[kernel]):
        end += -end % (64 if size == 128 else size)
        parameters.append(Parameter(end - 16, size))
        end += size
    return tuple(parameters)
