"""GPU session of a benchmark: memory, one stream, event timing without host overhead, and captured graphs."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cugen.abi.errors import RunError
from cugen.bench.protocol import Queued, Work
from cugen.runtime.libcuda import Driver, driver
from cugen.toolchain.cuda import compile_cubin

_SMS, _L2_BYTES = 16, 38  # CU_DEVICE_ATTRIBUTE_*
_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING
_DEVICE_MAPPED = 2  # CU_MEMHOSTALLOC_DEVICEMAP
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED
_THREADS_PER_BLOCK = 256
_GATE_TIMEOUT_NS = 500_000_000  # nanoseconds until the gate opens by itself (heuristic)


@contextmanager
def session() -> Iterator[Session]:
    """Session on the current context's GPU, or GPU 0. Raises RunError (CG5011) without a driver."""
    cuda = driver()
    with cuda.context() as (_, ordinal):
        opened = Session(cuda, ordinal)
        try:
            yield opened
        finally:
            opened.close()


class Session:
    """Session on one GPU. All work is queued on `stream`, a driver handle. Driver errors raise RunError (CG5013)."""

    def __init__(self, cuda: Driver, ordinal: int) -> None:
        self._cuda = cuda
        self.ordinal = ordinal
        self.device = cuda.limits(ordinal).device
        self.capability = cuda.capability(ordinal)
        self.sms = cuda.figure(_SMS, ordinal)
        self.l2_bytes = cuda.figure(_L2_BYTES, ordinal)
        self.late = 0  # batches in which the GPU waited for the host
        stream = ctypes.c_void_p()
        cuda.call("cuStreamCreate", ctypes.byref(stream), _NON_BLOCKING)
        self.stream = int(stream.value or 0)
        self._module = cuda.load(compile_cubin(_probes(), "probes", self.capability).image)
        self._functions: dict[str, int] = {}
        self._events: list[ctypes.c_void_p] = []
        self._allocations: list[int] = []
        self._gate, self._gate_words = self._host_words()
        self._result = self.allocate(16)

    def close(self) -> None:
        """Frees all memory of the session."""
        self.synchronize()
        for address in tuple(self._allocations):
            self.release(address)
        for event in self._events:
            self._cuda.call("cuEventDestroy_v2", event)
        self._cuda.call("cuMemFreeHost", ctypes.c_void_p(self._gate))
        self._cuda.call("cuStreamDestroy_v2", ctypes.c_void_p(self.stream))

    def synchronize(self) -> None:
        self._cuda.call("cuStreamSynchronize", ctypes.c_void_p(self.stream))

    def free_bytes(self) -> int:
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._cuda.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def allocate(self, size: int) -> int:
        """Allocates `size` bytes and returns the address. Raises MemoryError if the GPU has less free memory."""
        address = ctypes.c_uint64()
        if size > self.free_bytes():
            raise MemoryError(f"{size:,} bytes, of which {self.device} has {self.free_bytes():,} left")
        self._cuda.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(size, 1)))
        self._allocations.append(int(address.value))
        return int(address.value)

    def release(self, address: int) -> None:
        self._allocations.remove(address)
        self._cuda.call("cuMemFree_v2", ctypes.c_uint64(address))

    def set_bytes(self, address: int, value: int, size: int) -> None:
        if size:
            self._cuda.call(
                "cuMemsetD8Async", ctypes.c_uint64(address), value, ctypes.c_size_t(size), ctypes.c_void_p(self.stream)
            )

    def copy(self, target: int, source: int, size: int) -> None:
        """Queues a copy of `size` bytes within the device."""
        if size:
            self._cuda.copy(target, source, size, self.stream)

    def upload(self, address: int, content: NDArray[Any]) -> None:
        """Copies a contiguous host array to the device."""
        if content.nbytes:
            self.synchronize()
            data = content.ctypes.data_as(ctypes.c_void_p)
            self._cuda.call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), data, ctypes.c_size_t(content.nbytes))

    def fetch(self, address: int, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Copies `count` elements to the host, after all queued work."""
        content = np.empty(count, np.dtype(f"u{dtype.itemsize}"))
        if content.nbytes:
            self.synchronize()
            data = content.ctypes.data_as(ctypes.c_void_p)
            self._cuda.call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(address), ctypes.c_size_t(content.nbytes))
        return content.view(dtype)

    def fill(self, address: int, dtype: str, count: int, seed: int, span: tuple[int, int], *, whole: bool) -> None:
        """Fills with random numbers of a spec type in `span`, inclusive; integers if `whole`."""
        if dtype == "bool":
            dtype, span, whole = "uint8", (0, 1), True
        numbers = (ctypes.c_uint64(count), ctypes.c_uint64(seed), *map(ctypes.c_int64, span), ctypes.c_int(whole))
        self._launch(f"fill_{dtype}", self.sms * 16, ctypes.c_uint64(address), *numbers)

    def count_equal(self, address: int, count: int, width: int, pattern: int) -> int:
        """Number of elements, among `count` of `width` bytes, equal to `pattern`."""
        return self._counted("count_equal", address, count, ctypes.c_int(width), ctypes.c_uint64(pattern))

    def count_different(self, address: int, other_address: int, size: int) -> int:
        """Number of different bytes in two memory ranges of `size` bytes."""
        return self._counted("count_different", address, ctypes.c_uint64(other_address), size)

    def read(self, address: int, size: int) -> None:
        """Reads `size` bytes once: the ceiling of reductions, and the cache flush."""
        arguments = (ctypes.c_uint64(address), ctypes.c_uint64(size // 16), ctypes.c_uint64(self._result + 8))
        blocks = max(1, -(-size // (16 * _THREADS_PER_BLOCK * 8)))
        self._launch("read_all", blocks, *arguments)

    def times_us(self, works: Sequence[Work]) -> list[float]:
        """GPU time of each work in microseconds, by a pair of events. All work is queued before the GPU starts, which
        excludes host overhead."""
        while len(self._events) < 2 * len(works):
            event = ctypes.c_void_p()
            self._cuda.call("cuEventCreate", ctypes.byref(event), 0)
            self._events.append(event)
        stream = ctypes.c_void_p(self.stream)
        pairs = list(zip(self._events[0::2], self._events[1::2], strict=True))[: len(works)]
        with self._gated():
            for work, (start, end) in zip(works, pairs, strict=True):
                if work.before is not None:
                    work.before()
                self._cuda.call("cuEventRecord", start, stream)
                work.run()
                self._cuda.call("cuEventRecord", end, stream)
        return [self._elapsed_us(start, end) for start, end in pairs]

    def captured(self, runs: Sequence[Queued]) -> tuple[Queued, Callable[[], None]]:
        """Functions that launch and destroy a graph of the runs in order. Raises RuntimeError if they can't be
        captured."""
        stream, graph, made = ctypes.c_void_p(self.stream), ctypes.c_void_p(), ctypes.c_void_p()
        self._cuda.call("cuStreamBeginCapture_v2", stream, _RELAXED)
        try:
            try:
                for run in runs:
                    run()
            finally:
                self._cuda.call("cuStreamEndCapture", stream, ctypes.byref(graph))
            self._cuda.call("cuGraphInstantiateWithFlags", ctypes.byref(made), graph, ctypes.c_uint64(0))
        except RunError as error:
            raise RuntimeError(error.message) from error
        self._cuda.call("cuGraphDestroy", graph)
        return (
            functools.partial(self._cuda.call, "cuGraphLaunch", made, stream),
            functools.partial(self._cuda.call, "cuGraphExecDestroy", made),
        )

    @contextmanager
    def _gated(self) -> Iterator[None]:
        """Context in which queued work starts only at the end."""
        self._gate_words[0] = self._gate_words[1] = 0
        self._launch("gate", 1, ctypes.c_uint64(self._gate), ctypes.c_uint64(_GATE_TIMEOUT_NS), threads=1)
        try:
            yield
        finally:
            self._gate_words[0] = 1
            self.synchronize()
            self.late += self._gate_words[1]

    def _elapsed_us(self, start: ctypes.c_void_p, end: ctypes.c_void_p) -> float:
        milliseconds = ctypes.c_float()
        self._cuda.call("cuEventElapsedTime", ctypes.byref(milliseconds), start, end)
        return float(milliseconds.value) * 1e3

    def _counted(self, function: str, address: int, *arguments: Any) -> int:
        self.set_bytes(self._result, 0, 8)
        numbers = [ctypes.c_uint64(a) if isinstance(a, int) else a for a in (address, *arguments, self._result)]
        self._launch(function, self.sms * 16, *numbers)
        return int(self.fetch(self._result, 1, np.dtype(np.uint64))[0])

    def _launch(self, name: str, blocks: int, *arguments: Any, threads: int = _THREADS_PER_BLOCK) -> None:
        if name not in self._functions:
            self._functions[name] = self._cuda.function(self._module, name)
        content = [bytes(argument) for argument in arguments]
        self._cuda.launch(self._functions[name], (blocks, 1, 1), (threads, 1, 1), 0, self.stream, content)

    def _host_words(self) -> tuple[int, ctypes.Array[ctypes.c_int]]:
        """Two mapped integers, visible to host and GPU at one address."""
        address = ctypes.c_void_p()
        self._cuda.call("cuMemHostAlloc", ctypes.byref(address), ctypes.c_size_t(8), _DEVICE_MAPPED)
        return int(address.value or 0), (ctypes.c_int * 2).from_address(int(address.value or 0))


@functools.cache
def _probes() -> str:
    return (Path(__file__).parent / "probes.cu").read_text()
