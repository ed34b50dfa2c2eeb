"""The CUDA driver through libcuda alone."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress

from cugen.abi.errors import RunError
from cugen.abi.manifest import LaunchEntry
from cugen.runtime.cuda import libcuda
from cugen.runtime.cuda.binding import NON_BLOCKING, Dim3, Stream
from cugen.runtime.device import Buffer

_ATTACH_GLOBAL, _DEVICE_MAP = 1, 2  # CU_MEM_ATTACH_GLOBAL, CU_MEMHOSTALLOC_DEVICEMAP


class LibcudaBinding:
    def __init__(self) -> None:
        self._cuda = libcuda.driver()
        self._allocations: dict[int, str] = {}  # by address: the function that frees it
        self._modules: list[int] = []
        self._streams: list[int] = []
        self._timers: list[_Timer] = []

    def current(self, ordinal: int) -> AbstractContextManager[int]:
        return self._cuda.primary(ordinal)

    def release(self) -> None:
        freed = [(function, address) for address, function in self._allocations.items()]
        freed += [("cuEventDestroy_v2", event) for timer in self._timers for event in timer.events]
        freed += [("cuStreamDestroy_v2", stream) for stream in self._streams]
        freed += [("cuModuleUnload", module) for module in self._modules]
        for function, handle in freed:
            with suppress(RunError):  # after a fault the context is unusable
                self._cuda.call(function, ctypes.c_uint64(handle))
        for resources in (self._timers, self._streams, self._modules):
            resources.clear()
        self._allocations.clear()

    def load(self, image: bytes) -> _Module:
        self._modules.append(self._cuda.load(image))
        return _Module(self._cuda, self._modules[-1])

    def stream(self) -> Stream:
        stream = ctypes.c_void_p()
        self._cuda.call("cuStreamCreate", ctypes.byref(stream), NON_BLOCKING)
        self._streams.append(int(stream.value or 0))
        return self._streams[-1]

    def timer(self) -> _Timer:
        self._timers.append(_Timer(self._cuda))
        return self._timers[-1]

    def free_bytes(self) -> int:
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._cuda.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def allocate(self, size: int, kind: str = "device") -> int:
        address, count = ctypes.c_uint64(), ctypes.c_size_t(size)
        if kind == "mapped":
            host = ctypes.c_uint64()
            self._cuda.call("cuMemHostAlloc", ctypes.byref(host), count, _DEVICE_MAP)
            self._allocations[host.value] = "cuMemFreeHost"
            self._cuda.call("cuMemHostGetDevicePointer_v2", ctypes.byref(address), host, 0)
            return address.value
        if kind == "managed":
            self._cuda.call("cuMemAllocManaged", ctypes.byref(address), count, _ATTACH_GLOBAL)
        else:
            self._cuda.call("cuMemAlloc_v2", ctypes.byref(address), count)
        self._allocations[address.value] = "cuMemFree_v2"
        return address.value

    def free(self, address: int) -> None:
        self._cuda.call(self._allocations.pop(address), ctypes.c_uint64(address))

    def upload(self, address: int, content: Buffer) -> None:
        data, size = content.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(content.nbytes)
        self._cuda.call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), data, size)

    def fetch(self, content: Buffer, address: int) -> None:
        data, size = content.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(content.nbytes)
        self._cuda.call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(address), size)

    def copy(self, target: int, source: int, size: int, stream: Stream = None) -> None:
        self._cuda.copy(target, source, size, stream)

    def set_bytes(self, address: int, value: int, size: int, stream: Stream = None) -> None:
        self._cuda.set_bytes(address, value, size, stream)

    def store(self, address: int, number: bytes, stream: Stream = None) -> None:
        self._cuda.store(address, number, stream)

    def synchronize(self, stream: Stream = None) -> None:
        if stream is None:
            self._cuda.call("cuCtxSynchronize")
        else:
            self._cuda.call("cuStreamSynchronize", ctypes.c_void_p(stream))


class _Module:
    def __init__(self, cuda: libcuda.Driver, module: int) -> None:
        self._cuda, self._module = cuda, module
        self._kernels: dict[str, _KernelFunction] = {}

    def kernel(self, name: str) -> _KernelFunction:
        if name not in self._kernels:
            self._kernels[name] = _KernelFunction(self._cuda, self._cuda.function(self._module, name))
        return self._kernels[name]

    def symbol(self, name: str) -> int:
        return self._cuda.symbol(self._module, name)


class _KernelFunction:
    def __init__(self, cuda: libcuda.Driver, function: int) -> None:
        self._cuda, self._function = cuda, function

    def allow_dynamic_shared(self, size: int) -> None:
        self._cuda.allow_dynamic_shared(self._function, size)

    def configure(self, launch: LaunchEntry) -> None:
        self._cuda.configure(self._function, launch)

    def launch(self, grid: Dim3, block: Dim3, shared_bytes: int, stream: Stream, arguments: Sequence[bytes]) -> None:
        self._cuda.launch(self._function, grid, block, shared_bytes, stream, arguments)


class _Timer:
    def __init__(self, cuda: libcuda.Driver) -> None:
        self._cuda = cuda
        first, second = ctypes.c_void_p(), ctypes.c_void_p()
        for event in (first, second):
            cuda.call("cuEventCreate", ctypes.byref(event), 0)
        self._first, self._second = first, second

    @property
    def events(self) -> tuple[int, int]:
        return int(self._first.value or 0), int(self._second.value or 0)

    def start(self, stream: Stream) -> None:
        self._cuda.call("cuEventRecord", self._first, ctypes.c_void_p(stream))

    def stop(self, stream: Stream) -> None:
        self._cuda.call("cuEventRecord", self._second, ctypes.c_void_p(stream))

    def milliseconds(self) -> float:
        milliseconds = ctypes.c_float()
        self._cuda.call("cuEventSynchronize", self._second)
        self._cuda.call("cuEventElapsedTime", ctypes.byref(milliseconds), self._first, self._second)
        return float(milliseconds.value)
