"""libcuda on a GPU of the tests."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.runtime.fakes.gpu import PRIMARY, SYMBOL, FakeGpu

_ILLEGAL_ADDRESS, _NO_DEVICE = 700, 100  # CUDA_ERROR_*
_ERRORS = {
    _ILLEGAL_ADDRESS: (b"CUDA_ERROR_ILLEGAL_ADDRESS", b"an illegal memory access was encountered"),
    _NO_DEVICE: (b"CUDA_ERROR_NO_DEVICE", b"no CUDA-capable device is detected"),
}
# CU_DEVICE_ATTRIBUTE_*: threads, block, grid, registers, SMs, L2, compute capability, shared memory
_ATTRIBUTES = {1: 1024, **dict.fromkeys((2, 3, 4, 5, 6, 7, 12), 65535), 16: 2, 38: 4096, 75: 9, 76: 0, 97: 99 * 1024}


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

    def cuMemAllocAsync(self, address: Any, size: Any, stream: Any) -> int:
        return self.cuMemAlloc_v2(address, size)

    def cuPointerGetAttribute(self, ordinal: Any, attribute: int, address: Any) -> int:
        ordinal._obj.value = 0
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
