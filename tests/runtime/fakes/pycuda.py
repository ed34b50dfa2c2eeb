"""`pycuda.driver` on a GPU of the tests."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from tests.runtime.fakes.gpu import CARVEOUT, DYNAMIC, PRIMARY, SYMBOL, FakeGpu, parameters_of


class FakePyCuda(ModuleType):
    """As much of `pycuda.driver` as is used, with its signatures. Its stack holds back all contexts but the last one
    from the driver's."""

    class Error(Exception):
        pass

    def __init__(self, gpu: FakeGpu) -> None:
        super().__init__("pycuda.driver")
        driver = self
        self.gpu = gpu
        attributes = {"MAX_DYNAMIC_SHARED_SIZE_BYTES": DYNAMIC, "PREFERRED_SHARED_MEMORY_CARVEOUT": CARVEOUT}
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
