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
from cugen.runtime.cuda import libcuda
from cugen.runtime.cuda.binding import Binding, Timer
from cugen.runtime.cuda.choice import binding
from cugen.runtime.cuda.streams import stream_handle
from cugen.toolchain.cuda import compile_cubin

_SMS, _L2_BYTES = 16, 38  # CU_DEVICE_ATTRIBUTE_*
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED
_THREADS_PER_BLOCK = 256
_GATE_TIMEOUT_NS = 500_000_000  # nanoseconds until the gate opens by itself (heuristic)


@contextmanager
def session() -> Iterator[Session]:
    """Session in the primary context of the current context's GPU, or of GPU 0. Raises RunError (CG5011) without a
    driver."""
    ordinal = libcuda.driver().ordinal() if libcuda.driver().context() else 0
    cuda = binding()
    with cuda.current(ordinal):
        try:
            opened = Session(cuda, ordinal)
            try:
                yield opened
            finally:
                opened.close()
        finally:
            cuda.release()


class Session:
    """Session on one GPU, through PyCUDA if it is installed. All work is queued on `stream`, which calls of compiled
    kernels take; `stream_handle` is its handle for other libraries. Driver errors raise RunError (CG5013)."""

    def __init__(self, cuda: Binding, ordinal: int) -> None:
        self._cuda = cuda
        self.ordinal = ordinal
        self.device = libcuda.driver().limits(ordinal).device
        self.capability = libcuda.driver().capability(ordinal)
        self.sms = libcuda.driver().figure(_SMS, ordinal)
        self.l2_bytes = libcuda.driver().figure(_L2_BYTES, ordinal)
        self.late = 0  # batches in which the GPU waited for the host
        self.stream = cuda.stream()
        self.stream_handle = stream_handle(self.stream)
        self._module = cuda.load(compile_cubin(_probes(), "probes", self.capability).image)
        self._timers: list[Timer] = []
        self._gate = cuda.allocate(8, "mapped")
        self._gate_words = _words_at(self._gate)
        self._result = self.allocate(16)

    def close(self) -> None:
        """Waits for all work. The binding has to be released then."""
        try:
            self.synchronize()
        finally:
            self.stream = None

    def synchronize(self) -> None:
        self._cuda.synchronize(self.stream)

    def free_bytes(self) -> int:
        return self._cuda.free_bytes()

    def allocate(self, size: int) -> int:
        """Allocates `size` bytes and returns the address. Raises MemoryError if the GPU has less free memory."""
        if size > self.free_bytes():
            raise MemoryError(f"{size:,} bytes, of which {self.device} has {self.free_bytes():,} left")
        return self._cuda.allocate(max(size, 1))

    def release(self, address: int) -> None:
        self._cuda.free(address)

    def set_bytes(self, address: int, value: int, size: int) -> None:
        if size:
            self._cuda.set_bytes(address, value, size, self.stream)

    def copy(self, target: int, source: int, size: int) -> None:
        """Queues a copy of `size` bytes within the device."""
        if size:
            self._cuda.copy(target, source, size, self.stream)

    def upload(self, address: int, content: NDArray[Any]) -> None:
        """Copies a contiguous host array to the device."""
        if content.nbytes:
            self.synchronize()
            self._cuda.upload(address, content.reshape(-1).view(np.uint8))

    def fetch(self, address: int, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Copies `count` elements to the host, after all queued work."""
        content = np.empty(count, np.dtype(f"u{dtype.itemsize}"))
        if content.nbytes:
            self.synchronize()
            self._cuda.fetch(content, address)
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
        while len(self._timers) < len(works):
            self._timers.append(self._cuda.timer())
        timers = self._timers[: len(works)]
        with self._gated():
            for work, timer in zip(works, timers, strict=True):
                if work.before is not None:
                    work.before()
                timer.start(self.stream)
                work.run()
                timer.stop(self.stream)
        return [timer.milliseconds() * 1e3 for timer in timers]

    def captured(self, runs: Sequence[Queued]) -> tuple[Queued, Callable[[], None]]:
        """Functions that launch and destroy a graph of the runs in order. Raises RuntimeError if they can't be
        captured."""
        cuda = libcuda.driver()  # PyCUDA has no graphs
        stream, graph, made = ctypes.c_void_p(self.stream_handle), ctypes.c_void_p(), ctypes.c_void_p()
        cuda.call("cuStreamBeginCapture_v2", stream, _RELAXED)
        try:
            try:
                for run in runs:
                    run()
            finally:
                cuda.call("cuStreamEndCapture", stream, ctypes.byref(graph))
            cuda.call("cuGraphInstantiateWithFlags", ctypes.byref(made), graph, ctypes.c_uint64(0))
        except RunError as error:
            raise RuntimeError(error.message) from error
        cuda.call("cuGraphDestroy", graph)
        return (
            functools.partial(cuda.call, "cuGraphLaunch", made, stream),
            functools.partial(cuda.call, "cuGraphExecDestroy", made),
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

    def _counted(self, function: str, address: int, *arguments: Any) -> int:
        self.set_bytes(self._result, 0, 8)
        numbers = [ctypes.c_uint64(a) if isinstance(a, int) else a for a in (address, *arguments, self._result)]
        self._launch(function, self.sms * 16, *numbers)
        return int(self.fetch(self._result, 1, np.dtype(np.uint64))[0])

    def _launch(self, name: str, blocks: int, *arguments: Any, threads: int = _THREADS_PER_BLOCK) -> None:
        kernel = self._module.kernel(name)
        kernel.launch((blocks, 1, 1), (threads, 1, 1), 0, self.stream, [bytes(argument) for argument in arguments])


def _words_at(address: int) -> ctypes.Array[ctypes.c_int]:
    """Two integers in mapped memory, which host and GPU see at one address."""
    return (ctypes.c_int * 2).from_address(address)


@functools.cache
def _probes() -> str:
    return (Path(__file__).parent / "probes.cu").read_text()
