"""What a run needs of the CUDA driver, through PyCUDA or, where PyCUDA is not installed, through libcuda.

PyCUDA is imported on first use. Both use the primary context, which PyTorch and CuPy share; it is retained for the
process and current only during a run.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from cugen.abi.errors import RunError
from cugen.abi.manifest import LaunchEntry
from cugen.runtime import libcuda
from cugen.runtime.device import Buffer

Dim3 = tuple[int, int, int]

_DEFAULT_STREAM = 0
_ATTACH_GLOBAL, _DEVICE_MAP = 1, 2  # CU_MEM_ATTACH_GLOBAL, CU_MEMHOSTALLOC_DEVICEMAP


class Module(Protocol):
    """A loaded cubin."""

    def symbol(self, name: str) -> int: ...

    def allow_dynamic_shared(self, kernel: str, size: int) -> None: ...

    def configure(self, launch: LaunchEntry) -> None:
        """Sets what a launch asks of the device."""

    def launch(
        self, kernel: str, grid: Dim3, block: Dim3, shared_bytes: int, maps: Sequence[bytes], values: Sequence[Any]
    ) -> None:
        """Launches on the default stream; tensor maps come before the NumPy scalars `values`."""

    def close(self) -> None: ...


class Binding(Protocol):
    """Methods raise `error` where the driver reports one. All but `current` act in the current context."""

    error: type[Exception]

    def current(self, ordinal: int) -> AbstractContextManager[object]:
        """Context in which the primary context of a GPU is current."""

    def load(self, image: bytes, kernels: Iterable[str]) -> Module: ...

    def allocate(self, size: int, kind: str) -> int:
        """The address on the device of device, managed or mapped memory, which is freed by `release`."""

    def release(self) -> None:
        """Frees all allocations."""

    def set_bytes(self, address: int, value: int, size: int) -> None: ...

    def upload(self, address: int, content: Buffer) -> None:
        """Copies contiguous bytes to the device."""

    def fetch(self, content: Buffer, address: int) -> None:
        """Copies from the device into contiguous bytes."""

    def copy(self, target: int, source: int, size: int) -> None: ...

    def synchronize(self) -> None: ...

    def timed(self, work: Callable[[], None]) -> float:
        """Milliseconds between CUDA events around `work`."""


def missing_pycuda() -> str:
    """Why PyCUDA can't be imported; empty if it can."""
    try:
        _pycuda()
    except ImportError as error:
        return str(error)
    return ""


def binding() -> Binding:
    """PyCUDA, or libcuda where PyCUDA can't be imported."""
    return LibcudaBinding() if missing_pycuda() else PyCudaBinding()


class PyCudaBinding:
    def __init__(self) -> None:
        self._driver = _pycuda()
        self.error: type[Exception] = self._driver.Error
        self._allocations: list[Any] = []

    @contextmanager
    def current(self, ordinal: int) -> Iterator[None]:
        _retained(ordinal).push()
        try:
            yield
        finally:
            self._driver.Context.pop()

    def load(self, image: bytes, kernels: Iterable[str]) -> Module:
        return _PyCudaModule(self._driver, image, kernels)

    def allocate(self, size: int, kind: str) -> int:
        driver = self._driver
        if kind == "device":
            self._allocations.append(driver.mem_alloc(size))
            return int(self._allocations[-1])
        if kind == "managed":
            array = driver.managed_empty(size, np.uint8, mem_flags=driver.mem_attach_flags.GLOBAL)
        else:
            array = driver.pagelocked_empty(size, np.uint8, mem_flags=driver.host_alloc_flags.DEVICEMAP)
        self._allocations.append(array)
        return int(array.base.get_device_pointer())

    def release(self) -> None:
        self._allocations.clear()

    def set_bytes(self, address: int, value: int, size: int) -> None:
        self._driver.memset_d8(address, value, size)

    def upload(self, address: int, content: Buffer) -> None:
        self._driver.memcpy_htod(address, content)

    def fetch(self, content: Buffer, address: int) -> None:
        self._driver.memcpy_dtoh(content, address)

    def copy(self, target: int, source: int, size: int) -> None:
        self._driver.memcpy_dtod(target, source, size)

    def synchronize(self) -> None:
        self._driver.Context.synchronize()

    def timed(self, work: Callable[[], None]) -> float:
        start, end = self._driver.Event(), self._driver.Event()
        start.record()
        work()
        end.record()
        end.synchronize()
        return float(end.time_since(start))


class _PyCudaModule:
    def __init__(self, driver: ModuleType, image: bytes, kernels: Iterable[str]) -> None:
        self._driver = driver
        self._module = driver.module_from_buffer(image)
        self._functions = {kernel: self._module.get_function(kernel) for kernel in kernels}

    def symbol(self, name: str) -> int:
        address, _ = self._module.get_global(name)
        return int(address)

    def allow_dynamic_shared(self, kernel: str, size: int) -> None:
        attribute = self._driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
        self._functions[kernel].set_attribute(attribute, size)

    def configure(self, launch: LaunchEntry) -> None:
        driver, function = self._driver, self._functions[launch.kernel]
        if launch.carveout is not None:
            function.set_attribute(driver.function_attribute.PREFERRED_SHARED_MEMORY_CARVEOUT, launch.carveout)
        if launch.cache_config:
            function.set_cache_config(getattr(driver.func_cache, launch.cache_config.upper()))
        if launch.bank_bytes and hasattr(function, "set_shared_config"):  # not by CUDA 13, which has no GPU of 3.x
            widths = {4: "FOUR_BYTE_BANK_SIZE", 8: "EIGHT_BYTE_BANK_SIZE"}
            function.set_shared_config(getattr(driver.shared_config, widths[launch.bank_bytes]))

    def launch(
        self, kernel: str, grid: Dim3, block: Dim3, shared_bytes: int, maps: Sequence[bytes], values: Sequence[Any]
    ) -> None:
        self._functions[kernel](*values, grid=grid, block=block, shared=shared_bytes)

    def close(self) -> None:
        """PyCUDA unloads the module with its last reference."""


class LibcudaBinding:
    error: type[Exception] = RunError

    def __init__(self) -> None:
        self._cuda = libcuda.driver()
        self._freed_by: dict[int, str] = {}  # address: the function that frees it

    def current(self, ordinal: int) -> AbstractContextManager[object]:
        return self._cuda.primary(ordinal)

    def load(self, image: bytes, kernels: Iterable[str]) -> Module:
        return LibcudaModule(image, kernels)

    def allocate(self, size: int, kind: str) -> int:
        address, count = ctypes.c_uint64(), ctypes.c_size_t(size)
        if kind == "mapped":
            host = ctypes.c_uint64()
            self._cuda.call("cuMemHostAlloc", ctypes.byref(host), count, _DEVICE_MAP)
            self._freed_by[host.value] = "cuMemFreeHost"
            self._cuda.call("cuMemHostGetDevicePointer_v2", ctypes.byref(address), host, 0)
            return address.value
        if kind == "managed":
            self._cuda.call("cuMemAllocManaged", ctypes.byref(address), count, _ATTACH_GLOBAL)
        else:
            self._cuda.call("cuMemAlloc_v2", ctypes.byref(address), count)
        self._freed_by[address.value] = "cuMemFree_v2"
        return address.value

    def release(self) -> None:
        for address, function in self._freed_by.items():
            with suppress(RunError):  # after a fault the context is unusable
                self._cuda.call(function, ctypes.c_uint64(address))
        self._freed_by.clear()

    def set_bytes(self, address: int, value: int, size: int) -> None:
        self._cuda.clear(address, size, _DEFAULT_STREAM, value)

    def upload(self, address: int, content: Buffer) -> None:
        data, size = content.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(content.nbytes)
        self._cuda.call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), data, size)

    def fetch(self, content: Buffer, address: int) -> None:
        data, size = content.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(content.nbytes)
        self._cuda.call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(address), size)

    def copy(self, target: int, source: int, size: int) -> None:
        self._cuda.copy(target, source, size, _DEFAULT_STREAM)

    def synchronize(self) -> None:
        self._cuda.call("cuCtxSynchronize")

    def timed(self, work: Callable[[], None]) -> float:
        start, end, milliseconds = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_float()
        for event in (start, end):
            self._cuda.call("cuEventCreate", ctypes.byref(event), 0)
        try:
            self._cuda.call("cuEventRecord", start, None)
            work()
            self._cuda.call("cuEventRecord", end, None)
            self._cuda.call("cuEventSynchronize", end)
            self._cuda.call("cuEventElapsedTime", ctypes.byref(milliseconds), start, end)
        finally:
            for event in (start, end):
                with suppress(RunError):  # after a fault the context is unusable
                    self._cuda.call("cuEventDestroy_v2", event)
        return float(milliseconds.value)


class LibcudaModule:
    """PyCUDA can't launch kernels with tensor maps, whose offset in the parameters the cubin alone has: this class
    launches them beside it."""

    def __init__(self, image: bytes, kernels: Iterable[str]) -> None:
        self._cuda = libcuda.driver()
        self._module = self._cuda.load(image)
        self._functions = {kernel: self._cuda.function(self._module, kernel) for kernel in kernels}

    def symbol(self, name: str) -> int:
        return self._cuda.symbol(self._module, name)

    def allow_dynamic_shared(self, kernel: str, size: int) -> None:
        self._cuda.allow_dynamic_shared(self._functions[kernel], size)

    def configure(self, launch: LaunchEntry) -> None:
        self._cuda.configure(self._functions[launch.kernel], launch)

    def launch(
        self, kernel: str, grid: Dim3, block: Dim3, shared_bytes: int, maps: Sequence[bytes], values: Sequence[Any]
    ) -> None:
        arguments = [*maps, *(value.tobytes() for value in values)]
        self._cuda.launch(self._functions[kernel], grid, block, shared_bytes, _DEFAULT_STREAM, arguments)

    def close(self) -> None:
        with suppress(RunError):  # after a fault the context is unusable
            self._cuda.call("cuModuleUnload", ctypes.c_void_p(self._module))


def _pycuda() -> ModuleType:
    import pycuda.driver

    driver: ModuleType = pycuda.driver
    return driver


@functools.cache
def _retained(ordinal: int) -> Any:
    driver = _pycuda()
    driver.init()
    return driver.Device(ordinal).retain_primary_context()
