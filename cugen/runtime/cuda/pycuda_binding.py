"""The CUDA driver through PyCUDA, which is imported on first use.

The primary context is the one that PyTorch and CuPy share. It is retained for the process.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

from cugen.abi.codes import DEVICE_FAULT, NO_GPU
from cugen.abi.errors import RunError
from cugen.abi.manifest import LaunchEntry
from cugen.runtime.cuda import libcuda
from cugen.runtime.cuda.binding import NON_BLOCKING, Dim3, Stream
from cugen.runtime.device import Buffer
from cugen.runtime.packing import parameter_buffer
from cugen.toolchain.binary.elf import Parameter, parameters

_BANK_CONFIGS = {4: "FOUR_BYTE_BANK_SIZE", 8: "EIGHT_BYTE_BANK_SIZE"}
_MEMSET_BYTES = 4  # of the widest memset


@functools.cache
def missing_pycuda() -> str:
    """Why PyCUDA can't be imported; empty if it can."""
    try:
        _pycuda()
    except ImportError as error:
        return str(error)
    return ""


def is_stream(stream: object) -> bool:
    """Whether PyCUDA takes a stream that is not the default one."""
    driver = sys.modules.get("pycuda.driver")
    return driver is not None and isinstance(stream, driver.Stream)


def made_current(context: int) -> bool:
    """Whether the current context, of this handle, is the one that PyCUDA made current last."""
    driver = sys.modules.get("pycuda.driver")
    if driver is None:
        return False
    top = driver.Context.get_current()
    return top is not None and int(top.handle) == context


class PyCudaBinding:
    """PyCUDA frees an object with its last reference, which callers must not hold after `release`: the context has to
    be current."""

    def __init__(self) -> None:
        self._driver = _pycuda()
        self._allocations: dict[int, Any] = {}
        self._modules: list[_Module] = []
        self._timers: list[_Timer] = []

    @contextmanager
    def current(self, ordinal: int) -> Iterator[int]:
        context = _retained(ordinal)
        before = libcuda.driver().context()
        _call(context.push)
        try:
            yield int(context.handle)
        finally:
            _call(self._driver.Context.pop)
            if libcuda.driver().context() != before:
                # Another library had put its context in place of PyCUDA's, which is what PyCUDA makes current again.
                libcuda.driver().set_context(before)

    def release(self) -> None:
        for timer in self._timers:
            timer.close()
        for module in self._modules:
            module.close()
        self._timers.clear()
        self._modules.clear()
        self._allocations.clear()

    def load(self, image: bytes) -> _Module:
        with libcuda.driver().relaxed_capture():
            module = _call(self._driver.module_from_buffer, image)
        self._modules.append(_Module(self._driver, module, image))
        return self._modules[-1]

    def stream(self) -> Stream:
        return _call(self._driver.Stream, NON_BLOCKING)

    def timer(self) -> _Timer:
        self._timers.append(_Timer(_call(self._driver.Event), _call(self._driver.Event)))
        return self._timers[-1]

    def free_bytes(self) -> int:
        free, _ = _call(self._driver.mem_get_info)
        return int(free)

    def allocate(self, size: int, kind: str = "device") -> int:
        driver = self._driver
        if kind == "device":
            allocation = _call(driver.mem_alloc, size)
            address = int(allocation)
        else:
            if kind == "managed":
                allocation = _call(driver.managed_empty, size, np.uint8, "C", driver.mem_attach_flags.GLOBAL)
            else:
                allocation = _call(driver.pagelocked_empty, size, np.uint8, "C", driver.host_alloc_flags.DEVICEMAP)
            address = int(_call(allocation.base.get_device_pointer))
        self._allocations[address] = allocation
        return address

    def free(self, address: int) -> None:
        del self._allocations[address]

    def upload(self, address: int, content: Buffer) -> None:
        _call(self._driver.memcpy_htod, address, content)

    def fetch(self, content: Buffer, address: int) -> None:
        _call(self._driver.memcpy_dtoh, content, address)

    def copy(self, target: int, source: int, size: int, stream: Stream = None) -> None:
        _call(self._driver.memcpy_dtod_async, target, source, size, stream)

    def set_bytes(self, address: int, value: int, size: int, stream: Stream = None) -> None:
        _call(self._driver.memset_d8_async, address, value, size, stream)

    def store(self, address: int, number: bytes, stream: Stream = None) -> None:
        width = min(len(number), _MEMSET_BYTES)
        memset = getattr(self._driver, f"memset_d{8 * width}_async")
        for start in range(0, len(number), width):
            value = int.from_bytes(number[start : start + width], "little")
            _call(memset, address + start, value, 1, stream)

    def synchronize(self, stream: Stream = None) -> None:
        _call(self._driver.Context.synchronize if stream is None else stream.synchronize)


class _Module:
    def __init__(self, driver: ModuleType, module: Any, image: bytes) -> None:
        self._driver = driver
        self._module = module
        self._image = image
        self._kernels: dict[str, _KernelFunction] = {}

    def kernel(self, name: str) -> _KernelFunction:
        if name not in self._kernels:
            function = _call(self._module.get_function, name)
            self._kernels[name] = _KernelFunction(self._driver, function, parameters(self._image, name))
        return self._kernels[name]

    def symbol(self, name: str) -> int:
        address, _ = _call(self._module.get_global, name)
        return int(address)

    def close(self) -> None:
        self._kernels.clear()
        self._module = None


class _KernelFunction:
    def __init__(self, driver: ModuleType, function: Any, parameters: Sequence[Parameter]) -> None:
        self._driver = driver
        self._function = function
        self._packed = parameter_buffer(parameters).pack

    def allow_dynamic_shared(self, size: int) -> None:
        _call(self._function.set_attribute, self._driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, size)

    def configure(self, launch: LaunchEntry) -> None:
        driver, function = self._driver, self._function
        if launch.carveout is not None:
            attribute = driver.function_attribute.PREFERRED_SHARED_MEMORY_CARVEOUT
            _call(function.set_attribute, attribute, launch.carveout)
        if launch.cache_config:
            _call(function.set_cache_config, getattr(driver.func_cache, launch.cache_config.upper()))
        if launch.bank_bytes and hasattr(function, "set_shared_config"):  # not by CUDA 13, which has no GPU of 3.x
            _call(function.set_shared_config, getattr(driver.shared_config, _BANK_CONFIGS[launch.bank_bytes]))

    def launch(self, grid: Dim3, block: Dim3, shared_bytes: int, stream: Stream, arguments: Sequence[bytes]) -> None:
        # PyCUDA's own packing knows neither types of 128 bytes nor where the compiler puts them.
        _call(self._function._launch_kernel, grid, block, self._packed(*arguments), shared_bytes, stream)


class _Timer:
    def __init__(self, first: Any, second: Any) -> None:
        self._first, self._second = first, second

    def start(self, stream: Stream) -> None:
        _call(self._first.record, stream)

    def stop(self, stream: Stream) -> None:
        _call(self._second.record, stream)

    def milliseconds(self) -> float:
        _call(self._second.synchronize)
        return float(_call(self._second.time_since, self._first))

    def close(self) -> None:
        self._first = self._second = None


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except _pycuda().Error as error:
        raise RunError(DEVICE_FAULT, str(error)) from error


def _pycuda() -> ModuleType:
    import pycuda.driver

    driver: ModuleType = pycuda.driver
    return driver


@functools.cache
def _retained(ordinal: int) -> Any:
    driver = _pycuda()
    try:
        driver.init()
        return driver.Device(ordinal).retain_primary_context()
    except driver.Error as error:
        raise RunError(NO_GPU, f"GPU {ordinal} can't be used: {error}") from error
