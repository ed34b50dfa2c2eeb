"""A GPU that is a few lines of Python: memory is bytes, kernels are functions. As PyCUDA and as libcuda see it."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cugen.runtime.cuda import choice, libcuda, pycuda_binding
from cugen.toolchain.binary.elf import Parameter

BASE = 1 << 16
PRIMARY = 1 << 40  # the handle of the primary context of GPU 0; those of the others follow
_DYNAMIC, _CARVEOUT = 8, 9  # CU_FUNC_ATTRIBUTE_*
SYMBOL = 256  # the address of every `__constant__` variable
_ILLEGAL_ADDRESS, _NO_DEVICE = 700, 100  # CUDA_ERROR_*
_ERRORS = {
    _ILLEGAL_ADDRESS: (b"CUDA_ERROR_ILLEGAL_ADDRESS", b"an illegal memory access was encountered"),
    _NO_DEVICE: (b"CUDA_ERROR_NO_DEVICE", b"no CUDA-capable device is detected"),
}
# CU_DEVICE_ATTRIBUTE_*: threads, block, grid, registers, SMs, L2, compute capability, shared memory
_ATTRIBUTES = {1: 1024, **dict.fromkeys((2, 3, 4, 5, 6, 7, 12), 65535), 16: 2, 38: 4096, 75: 9, 76: 0, 97: 99 * 1024}


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
        if attribute == _CARVEOUT:
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


@contextmanager
def installed_gpu(*, has_pycuda: bool) -> Iterator[FakeGpu]:
    """This GPU in place of those of the machine, with PyCUDA or without."""
    gpu = FakeGpu()
    opened = libcuda.Driver(FakeLibcuda(gpu))
    package = ModuleType("pycuda")
    package.driver = FakePyCuda(gpu) if has_pycuda else None  # type: ignore[attr-defined]
    caches = (choice._lasting, pycuda_binding._retained, pycuda_binding.missing_pycuda)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pycuda", package)
        patch.setitem(sys.modules, "pycuda.driver", package.driver)
        patch.setattr(libcuda, "driver", lambda: opened)
        patch.setattr(pycuda_binding, "parameters", lambda image, kernel: parameters_of(gpu, kernel))
        for cache in caches:
            cache.cache_clear()
        try:
            yield gpu
        finally:
            for cache in caches:
                cache.cache_clear()


class FakePyCuda(ModuleType):
    """As much of `pycuda.driver` as is used, with its signatures. Its stack holds back all contexts but the last one
    from the driver's."""

    class Error(Exception):
        pass

    def __init__(self, gpu: FakeGpu) -> None:
        super().__init__("pycuda.driver")
        driver = self
        self.gpu = gpu
        attributes = {"MAX_DYNAMIC_SHARED_SIZE_BYTES": _DYNAMIC, "PREFERRED_SHARED_MEMORY_CARVEOUT": _CARVEOUT}
        self.function_attribute = SimpleNamespace(**attributes)
        self.func_cache = SimpleNamespace(PREFER_EQUAL=3)
        self.shared_config = SimpleNamespace(EIGHT_BYTE_BANK_SIZE=2)
        self.mem_attach_flags = SimpleNamespace(GLOBAL=1)
        self.host_alloc_flags = SimpleNamespace(DEVICEMAP=2)
        pushed: list[Context] = []

        class Context:
            def __init__(self, handle: int) -> None:
                self.handle = handle

            def push(self) -> None:
                if pushed:
                    gpu.current.pop()
                gpu.push(self.handle)
                pushed.append(self)

            @staticmethod
            def pop() -> None:
                gpu.pop()
                pushed.pop()
                if pushed:
                    gpu.current.append(pushed[-1].handle)

            @staticmethod
            def get_current() -> Context | None:
                return pushed[-1] if pushed else None

            @staticmethod
            def synchronize() -> None:
                driver.fail_after_fault("cuCtxSynchronize")

        class Device:
            def __init__(self, ordinal: int) -> None:
                self.ordinal = ordinal

            def retain_primary_context(self) -> Context:
                return Context(PRIMARY + self.ordinal)

            def make_context(self) -> Context:
                context = Context(PRIMARY + 100 + self.ordinal)
                context.push()
                return context

        class Stream:
            def __init__(self, flags: int = 0) -> None:
                self.flags, self.handle = flags, gpu.make_stream()

            def __del__(self) -> None:
                gpu.streams.remove(self.handle)

            def synchronize(self) -> None:
                driver.fail_after_fault("cuStreamSynchronize")

        class Event:
            def __init__(self) -> None:
                gpu.live_events += 1

            def __del__(self) -> None:
                gpu.live_events -= 1

            def record(self, stream: Stream | None = None) -> Event:
                driver.handle_of(stream)
                self.tick = gpu.tick()
                return self

            def synchronize(self) -> Event:
                driver.fail_after_fault("cuEventSynchronize")
                return self

            def time_since(self, start: Event) -> float:
                return float(self.tick - start.tick)

        class Allocation:
            def __init__(self, size: int) -> None:
                self.address = gpu.allocate(size)

            def __int__(self) -> int:
                return self.address

            def __del__(self) -> None:
                gpu.allocated.remove(self.address)

        def on_host(kind: str, size: int, flags: int) -> SimpleNamespace:
            assert flags == {"managed": 1, "mapped": 2}[kind]
            gpu.host_allocations.append((kind, size))
            allocation = Allocation(size)
            return SimpleNamespace(base=SimpleNamespace(get_device_pointer=lambda: int(allocation)))

        self.managed_empty = lambda size, dtype, order, mem_flags: on_host("managed", size, mem_flags)
        self.pagelocked_empty = lambda size, dtype, order, mem_flags: on_host("mapped", size, mem_flags)
        self.Context, self.Device, self.Stream, self.Event, self.mem_alloc = Context, Device, Stream, Event, Allocation

    def handle_of(self, stream: Any) -> int:
        assert stream is None or isinstance(stream, self.Stream)
        return stream.handle if stream else 0

    def fail_after_fault(self, function: str) -> None:
        if self.gpu.is_broken:
            raise self.Error(f"{function} failed: an illegal memory access was encountered")

    def init(self) -> None:
        pass

    def mem_get_info(self) -> tuple[int, int]:
        return self.gpu.memory.size - self.gpu.top, self.gpu.memory.size

    def memset_d8_async(self, dest: int, data: int, size: int, stream: Any = None) -> None:
        self.handle_of(stream)
        self.gpu.memory[dest : dest + size] = data

    def memset_d16_async(self, dest: int, data: int, size: int, stream: Any = None) -> None:
        self.handle_of(stream)
        self.gpu.view(dest, size, "uint16")[:] = data

    def memset_d32_async(self, dest: int, data: int, size: int, stream: Any = None) -> None:
        self.handle_of(stream)
        self.gpu.view(dest, size, "uint32")[:] = data

    def memcpy_htod(self, dest: int, src: np.ndarray) -> None:
        self.gpu.memory[dest : dest + src.nbytes] = np.frombuffer(src, np.uint8)

    def memcpy_dtoh(self, dest: np.ndarray, src: int) -> None:
        np.frombuffer(dest, np.uint8)[:] = self.gpu.memory[src : src + dest.nbytes]

    def memcpy_dtod_async(self, dest: int, src: int, size: int, stream: Any = None) -> None:
        self.handle_of(stream)
        self.gpu.memory[dest : dest + size] = self.gpu.memory[src : src + size].copy()

    def module_from_buffer(self, buffer: bytes) -> object:
        driver, gpu = self, self.gpu

        class Function:
            def __init__(self, name: str, module: Module) -> None:
                self.name, self.module = name, module  # which it keeps loaded

            def set_attribute(self, attribute: int, value: int) -> None:
                gpu.set_attribute(self.name, attribute, value)

            def set_cache_config(self, config: int) -> None:
                gpu.configured.append(("cache", config))

            def set_shared_config(self, config: int) -> None:
                gpu.configured.append(("banks", config))

            def _launch_kernel(
                self, grid: tuple[int, ...], block: tuple[int, ...], buffer: bytes, shared: int, stream: Any
            ) -> None:
                assert [type(value) for value in (grid, block, buffer, shared)] == [tuple, tuple, bytes, int]
                types = list(map(np.dtype, gpu.parameters[self.name]))
                offsets = [parameter.offset for parameter in parameters_of(gpu, self.name)]
                raw = [buffer[start : start + t.itemsize] for start, t in zip(offsets, types, strict=True)]
                arguments = tuple(np.frombuffer(content, t)[0] for content, t in zip(raw, types, strict=True))
                handle = driver.handle_of(stream)
                gpu.launch("PyCUDA", self.name, arguments, handle, grid=grid, block=block, shared=shared)

        class Module:
            def __init__(self) -> None:
                gpu.live_modules += 1

            def __del__(self) -> None:
                gpu.live_modules -= 1

            def get_function(self, name: str) -> Function:
                return Function(name, self)

            def get_global(self, name: str) -> tuple[int, int]:
                return SYMBOL, 64

        return Module()


def parameters_of(gpu: FakeGpu, kernel: str) -> tuple[Parameter, ...]:
    """Where a compiler puts the parameters: the bank has 16 bytes in front of them."""
    parameters, end = [], 16
    for size in (np.dtype(name).itemsize for name in gpu.parameters[kernel]):
        end += -end % (64 if size == 128 else size)
        parameters.append(Parameter(end - 16, size))
        end += size
    return tuple(parameters)


class FakeLibcuda:
    """As much of libcuda as a run uses, called through ctypes. Functions without a method here only succeed."""

    def __init__(self, gpu: FakeGpu) -> None:
        self.gpu = gpu
        self.functions: list[str] = []  # a handle is an index, from 1 on
        self.events: list[int] = []

    def __getattr__(self, name: str) -> Callable[..., int]:
        assert name.startswith("cu")
        return lambda *arguments: 0

    def cuGetErrorName(self, status: int, text: Any) -> int:
        text._obj.value = _ERRORS[status][0]
        return 0

    def cuGetErrorString(self, status: int, text: Any) -> int:
        text._obj.value = _ERRORS[status][1]
        return 0

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = self.gpu.count
        return 0

    def cuDeviceGetName(self, name: Any, size: int, ordinal: int) -> int:
        name.value = b"a made-up GPU"
        return 0

    def cuDeviceGetAttribute(self, value: Any, attribute: int, ordinal: int) -> int:
        value._obj.value = _ATTRIBUTES[attribute]
        return 0

    def cuDevicePrimaryCtxRetain(self, context: Any, ordinal: Any) -> int:
        context._obj.value = PRIMARY + ordinal.value
        return 0

    def cuCtxPushCurrent_v2(self, context: Any) -> int:
        self.gpu.push(context.value)
        return 0

    def cuCtxPopCurrent_v2(self, context: Any) -> int:
        self.gpu.pop()
        return 0

    def cuCtxGetCurrent(self, context: Any) -> int:
        context._obj.value = self.gpu.current[-1] if self.gpu.current else None
        return 0

    def cuCtxSetCurrent(self, context: Any) -> int:
        self.gpu.current[-1:] = [context.value]
        return 0

    def cuCtxSynchronize(self) -> int:
        return _ILLEGAL_ADDRESS if self.gpu.is_broken else 0

    def cuMemGetInfo_v2(self, free: Any, total: Any) -> int:
        free._obj.value, total._obj.value = self.gpu.memory.size - self.gpu.top, self.gpu.memory.size
        return 0

    def cuStreamCreate(self, stream: Any, flags: int) -> int:
        stream._obj.value = self.gpu.make_stream()
        return 0

    def cuStreamDestroy_v2(self, stream: Any) -> int:
        self.gpu.streams.remove(stream.value)
        return 0

    def cuStreamSynchronize(self, stream: Any) -> int:
        return self.cuCtxSynchronize()

    def cuStreamBeginCapture_v2(self, stream: Any, mode: int) -> int:
        assert stream.value in self.gpu.streams
        self.gpu.captured = []
        return 0

    def cuStreamEndCapture(self, stream: Any, graph: Any) -> int:
        self.graph, self.gpu.captured = self.gpu.captured, None
        return 0

    def cuGraphLaunch(self, graph: Any, stream: Any) -> int:
        self.gpu.launches += [(kernel, {}) for kernel in self.graph or ()]
        return 0

    def cuModuleLoadData(self, module: Any, image: bytes) -> int:
        self.gpu.live_modules += 1
        module._obj.value = 99
        return 0

    def cuModuleUnload(self, module: Any) -> int:
        self.gpu.live_modules -= 1
        return 0

    def cuModuleGetFunction(self, function: Any, module: Any, name: bytes) -> int:
        self.functions.append(name.decode())
        function._obj.value = len(self.functions)
        return 0

    def cuModuleGetGlobal_v2(self, address: Any, size: Any, module: Any, name: bytes) -> int:
        address._obj.value = SYMBOL
        return 0

    def cuFuncSetAttribute(self, function: Any, attribute: int, value: Any) -> int:
        self.gpu.set_attribute(self.functions[function.value - 1], attribute, value.value)
        return 0

    def cuFuncSetCacheConfig(self, function: Any, config: Any) -> int:
        self.gpu.configured.append(("cache", config.value))
        return 0

    def cuFuncSetSharedMemConfig(self, function: Any, config: Any) -> int:
        self.gpu.configured.append(("banks", config.value))
        return 0

    def cuMemAllocManaged(self, address: Any, size: Any, flags: int) -> int:
        assert flags == 1
        self.gpu.host_allocations.append(("managed", size.value))
        return self.cuMemAlloc_v2(address, size)

    def cuMemHostAlloc(self, address: Any, size: Any, flags: int) -> int:
        assert flags == 2
        self.gpu.host_allocations.append(("mapped", size.value))
        return self.cuMemAlloc_v2(address, size)

    def cuMemHostGetDevicePointer_v2(self, address: Any, host: Any, flags: int) -> int:
        address._obj.value = host.value
        return 0

    def cuMemFreeHost(self, address: Any) -> int:
        return self.cuMemFree_v2(address)

    def cuMemAlloc_v2(self, address: Any, size: Any) -> int:
        address._obj.value = self.gpu.allocate(size.value)
        return 0

    def cuMemFree_v2(self, address: Any) -> int:
        self.gpu.allocated.remove(address.value)
        return 0

    def cuMemsetD8Async(self, address: Any, value: Any, size: Any, stream: Any) -> int:
        self.gpu.memory[address.value : address.value + size.value] = value.value
        return 0

    def cuMemsetD16Async(self, address: Any, value: Any, count: Any, stream: Any) -> int:
        self.gpu.view(address.value, count.value, "uint16")[:] = value.value
        return 0

    def cuMemsetD32Async(self, address: Any, value: Any, count: Any, stream: Any) -> int:
        self.gpu.view(address.value, count.value, "uint32")[:] = value.value
        return 0

    def cuMemcpyHtoD_v2(self, target: Any, source: Any, size: Any) -> int:
        content = np.frombuffer(ctypes.string_at(source.value, size.value), np.uint8)
        self.gpu.memory[target.value : target.value + size.value] = content
        return 0

    def cuMemcpyDtoH_v2(self, target: Any, source: Any, size: Any) -> int:
        content = self.gpu.memory[source.value : source.value + size.value].tobytes()
        ctypes.memmove(target.value, content, size.value)
        return 0

    def cuMemcpyDtoDAsync_v2(self, target: Any, source: Any, size: Any, stream: Any) -> int:
        content = self.gpu.memory[source.value : source.value + size.value].copy()
        self.gpu.memory[target.value : target.value + size.value] = content
        return 0

    def cuEventCreate(self, event: Any, flags: int) -> int:
        self.events.append(0)
        self.gpu.live_events += 1
        event._obj.value = len(self.events)
        return 0

    def cuEventDestroy_v2(self, event: Any) -> int:
        self.gpu.live_events -= 1
        return 0

    def cuEventRecord(self, event: Any, stream: Any) -> int:
        self.events[event.value - 1] = self.gpu.tick()
        return 0

    def cuEventElapsedTime(self, milliseconds: Any, start: Any, end: Any) -> int:
        milliseconds._obj.value = self.events[end.value - 1] - self.events[start.value - 1]
        return 0

    def cuTexObjectCreate(self, texture: Any, resource: Any, reading: Any, view: Any) -> int:
        texture._obj.value = resource._obj.address + 7
        self.gpu.textures[texture._obj.value] = resource._obj.address
        return 0

    def cuTexObjectDestroy(self, texture: Any) -> int:
        del self.gpu.textures[texture.value]
        return 0

    def cuTensorMapEncodeTiled(self, encoded: Any, dtype: int, rank: Any, address: Any, sizes: Any, *box: Any) -> int:
        ctypes.memset(encoded, len(self.gpu.tensor_maps), len(encoded))
        self.gpu.tensor_maps[bytes(encoded)] = address.value, tuple(sizes)
        return 0

    def cuLaunchKernel(self, function: Any, *launch: Any) -> int:
        kernel = self.functions[function.value - 1]
        *shape, stream, pointers, _extra = launch
        gx, gy, gz, bx, by, bz, shared = (number.value for number in shape)
        types = list(map(np.dtype, self.gpu.parameters[kernel]))
        assert len(pointers) == max(1, len(types))
        raw = [ctypes.string_at(pointer, dtype.itemsize) for pointer, dtype in zip(pointers, types, strict=False)]
        arguments = tuple(np.frombuffer(content, dtype)[0] for content, dtype in zip(raw, types, strict=True))
        grid, block = (gx, gy, gz), (bx, by, bz)
        self.gpu.launch("libcuda", kernel, arguments, stream.value or 0, grid=grid, block=block, shared=shared)
        return 0
