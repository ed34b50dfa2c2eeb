"""One interface to the CUDA driver with two implementations: PyCUDA and libcuda by ctypes.

Contexts that cugen makes current itself are used through PyCUDA. It doesn't take contexts and streams of others: those
are used through libcuda, as is all where PyCUDA is not installed. What PyCUDA lacks goes through libcuda in the same
context: texture objects, tensor maps, captured graphs, stream-ordered allocations.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from cugen.abi.manifest import LaunchEntry
from cugen.runtime.device import Buffer

Dim3 = tuple[int, int, int]
Stream = Any  # None is the default stream; others are `pycuda.driver.Stream`, or handles for libcuda
NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING


class KernelFunction(Protocol):
    """A kernel of a loaded module."""

    def allow_dynamic_shared(self, size: int) -> None: ...

    def configure(self, launch: LaunchEntry) -> None:
        """Sets what a launch asks of the device."""

    def launch(self, grid: Dim3, block: Dim3, shared_bytes: int, stream: Stream, arguments: Sequence[bytes]) -> None:
        """`arguments` are the bytes of each parameter."""


class Module(Protocol):
    """A loaded cubin."""

    def kernel(self, name: str) -> KernelFunction: ...

    def symbol(self, name: str) -> int:
        """The address of a `__constant__` variable."""


class Timer(Protocol):
    """A pair of events."""

    def start(self, stream: Stream) -> None: ...

    def stop(self, stream: Stream) -> None: ...

    def milliseconds(self) -> float:
        """Between both events; waits for the second one."""


class Binding(Protocol):
    """Methods raise RunError (CG5013) where the driver reports an error, and act in the current context.

    Modules, memory, streams and timers belong to the binding: `release` frees them."""

    def current(self, ordinal: int) -> AbstractContextManager[int]:
        """Makes the primary context of a GPU current and gives its handle. RunError (CG5011) without it."""

    def release(self) -> None:
        """Frees all that was made, in the context that it was made in, also after a fault."""

    def load(self, image: bytes) -> Module:
        """Also while a stream of this thread captures a CUDA graph, which doesn't record the load."""

    def stream(self) -> Stream:
        """A new stream that doesn't wait for the default one."""

    def timer(self) -> Timer: ...

    def free_bytes(self) -> int: ...

    def allocate(self, size: int, kind: str = "device") -> int:
        """The address on the device of device, managed or mapped memory."""

    def free(self, address: int) -> None: ...

    def upload(self, address: int, content: Buffer) -> None:
        """Copies contiguous bytes to the device."""

    def fetch(self, content: Buffer, address: int) -> None:
        """Copies from the device into contiguous bytes."""

    def copy(self, target: int, source: int, size: int, stream: Stream = None) -> None:
        """Queues a copy within the device."""

    def set_bytes(self, address: int, value: int, size: int, stream: Stream = None) -> None:
        """Queues a memset of at least one byte."""

    def store(self, address: int, number: bytes, stream: Stream = None) -> None:
        """Queues memsets of the bytes of a number, whose values a captured graph keeps."""

    def synchronize(self, stream: Stream = None) -> None:
        """Waits for a stream, or for the context."""
