"""A GPU that is a few lines of Python: memory is bytes, kernels are functions. As PyCUDA and as libcuda see it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

BASE = 1 << 16
_DYNAMIC, _CARVEOUT = 8, 9  # CU_FUNC_ATTRIBUTE_*
SYMBOL = 256  # the address of every `__constant__` variable
_ILLEGAL_ADDRESS, _NO_DEVICE = 700, 100  # CUDA_ERROR_*
_ERRORS = {
    _ILLEGAL_ADDRESS: (b"CUDA_ERROR_ILLEGAL_ADDRESS", b"an illegal memory access was encountered"),
    _NO_DEVICE: (b"CUDA_ERROR_NO_DEVICE", b"no CUDA-capable device is detected"),
}
# CU_DEVICE_ATTRIBUTE_*: threads, block, grid, registers, compute capability, shared memory
_ATTRIBUTES = {1: 1024, **dict.fromkeys((2, 3, 4, 5, 6, 7, 12), 65535), 75: 9, 76: 0, 97: 99 * 1024}


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
        self.attributes: dict[str, int] = {}
        self.configured: list[tuple[str, int]] = []  # what a launch asked, as the values of libcuda
        self.host_allocations: list[tuple[str, int]] = []
        self.contexts: list[str] = []
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

    def launch(self, kernel: str, arguments: tuple[np.generic, ...], **shape: Any) -> None:
        self.launches.append((kernel, shape))
        self.kernels[kernel](*arguments)

    def tick(self) -> int:
        self.ticks += 1
        return self.ticks


class FakePyCuda(ModuleType):
    """As much of `pycuda.driver` as a run uses, with its signatures."""

    class Error(Exception):
        pass

    def __init__(self, gpu: FakeGpu) -> None:
        super().__init__("pycuda.driver")
        self.gpu = gpu
        attributes = {"MAX_DYNAMIC_SHARED_SIZE_BYTES": _DYNAMIC, "PREFERRED_SHARED_MEMORY_CARVEOUT": _CARVEOUT}
        self.function_attribute = SimpleNamespace(**attributes)
        self.func_cache = SimpleNamespace(PREFER_EQUAL=3)
        self.shared_config = SimpleNamespace(EIGHT_BYTE_BANK_SIZE=2)
        self.mem_attach_flags = SimpleNamespace(GLOBAL=1)
        self.host_alloc_flags = SimpleNamespace(DEVICEMAP=2)
        context = SimpleNamespace(push=lambda: gpu.contexts.append("push"))
        self.Device = lambda ordinal: SimpleNamespace(retain_primary_context=lambda: context)
        self.Context = SimpleNamespace(synchronize=lambda: None, pop=lambda: gpu.contexts.append("pop"))

        class Event:
            def record(self) -> None:
                self.tick = gpu.tick()

            def synchronize(self) -> None:
                pass

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

        self.managed_empty = lambda size, dtype, mem_flags: on_host("managed", size, mem_flags)
        self.pagelocked_empty = lambda size, dtype, mem_flags: on_host("mapped", size, mem_flags)
        self.Event, self.mem_alloc = Event, Allocation

    def init(self) -> None:
        pass

    def memset_d8(self, dest: int, data: int, size: int) -> None:
        self.gpu.memory[dest : dest + size] = data

    def memcpy_htod(self, dest: int, src: np.ndarray) -> None:
        self.gpu.memory[dest : dest + src.nbytes] = src

    def memcpy_dtoh(self, dest: np.ndarray, src: int) -> None:
        dest[:] = self.gpu.memory[src : src + dest.nbytes]

    def memcpy_dtod(self, dest: int, src: int, size: int) -> None:
        self.gpu.memory[dest : dest + size] = self.gpu.memory[src : src + size]

    def module_from_buffer(self, image: bytes) -> object:
        driver, gpu = self, self.gpu

        class Function:
            def __init__(self, name: str) -> None:
                self.name = name

            def set_attribute(self, attribute: int, value: int) -> None:
                gpu.set_attribute(self.name, attribute, value)

            def set_cache_config(self, config: int) -> None:
                gpu.configured.append(("cache", config))

            def set_shared_config(self, config: int) -> None:
                gpu.configured.append(("banks", config))

            def __call__(self, *arguments: np.generic, **shape: object) -> None:
                assert [a.dtype for a in arguments] == list(map(np.dtype, gpu.parameters[self.name]))
                try:
                    gpu.launch(self.name, arguments, **shape)
                except IllegalAddressError:
                    raise driver.Error("cuCtxSynchronize failed: an illegal memory access was encountered") from None

        return SimpleNamespace(get_function=Function, get_global=lambda name: (SYMBOL, 64))


class FakeLibcuda:
    """As much of libcuda as a run uses, called through ctypes. Functions without a method here only succeed."""

    def __init__(self, gpu: FakeGpu) -> None:
        self.gpu = gpu
        self.functions: list[str] = []  # a handle is an index, from 1 on
        self.events: list[int] = []
        self.modules = 0

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

    def cuCtxPushCurrent_v2(self, context: Any) -> int:
        self.gpu.contexts.append("push")
        return 0

    def cuCtxPopCurrent_v2(self, context: Any) -> int:
        self.gpu.contexts.append("pop")
        return 0

    def cuModuleLoadData(self, module: Any, image: bytes) -> int:
        self.modules += 1
        module._obj.value = 99
        return 0

    def cuModuleUnload(self, module: Any) -> int:
        self.modules -= 1
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
        event._obj.value = len(self.events)
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
        *shape, _stream, pointers, _extra = launch
        gx, gy, gz, bx, by, bz, shared = (number.value for number in shape)
        types = list(map(np.dtype, self.gpu.parameters[kernel]))
        assert len(pointers) == len(types)
        raw = [ctypes.string_at(pointer, dtype.itemsize) for pointer, dtype in zip(pointers, types, strict=True)]
        arguments = tuple(np.frombuffer(content, dtype)[0] for content, dtype in zip(raw, types, strict=True))
        try:
            self.gpu.launch(kernel, arguments, grid=(gx, gy, gz), block=(bx, by, bz), shared=shared)
        except IllegalAddressError:
            return _ILLEGAL_ADDRESS
        return 0
